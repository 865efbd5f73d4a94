/** Panels: each has its own data, and its own trouble. */
import { ago } from '../format.js';
import { html, useErrorBoundary } from '../lib.js';

/** A panel with a heading. `of`: the answer that it shows; `children`: a function of the answer, or what to show. */
export function Panel({ title, note, actions, of, children, kind = '' }) {
  return html`<section class="panel ${kind}" aria-label=${title}>
    <header class="panel-head">
      <h2>${title}</h2>
      ${note && html`<span class="note">${note}</span>`}
      ${actions && html`<div class="actions">${actions}</div>`}
    </header>
    <${Safely}><${Body} of=${of}>${children}<//><//>
  </section>`;
}

function Body({ of, children }) {
  const draw = () => (typeof children === 'function' ? children(of?.data) : children);
  if (!of) return draw();
  if (of.data === undefined) return of.error ? html`<${Trouble} error=${of.error} />` : html`<${Skeleton} />`;
  if (!of.error) return draw();
  return html`<${Trouble} error=${of.error} at=${of.at} /><div class="stale">${draw()}</div>`;
}

export function Trouble({ error, at }) {
  return html`<p class="trouble" role="status">
    ${sentence(error.message)}.${at ? ` What is shown is from ${ago(at)}.` : ''}
  </p>`;
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1).replace(/\.$/, '');
}

export function Skeleton() {
  return html`<div class="skeleton" aria-busy="true"><i></i><i></i><i></i></div>`;
}

export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

/** What fails to be drawn takes nothing else with it. */
function Safely({ children }) {
  const [error, again] = useErrorBoundary((problem) => console.error(problem));
  if (!error) return children;
  return html`<p class="trouble" role="status">
    This cannot be shown: ${error.message}. <button class="plain" onClick=${again}>Try again</button>
  </p>`;
}
