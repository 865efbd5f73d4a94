/** How far back charts go: chosen in the page's address. */
import { html } from '../lib.js';
import { choose, route } from '../route.js';

const SPANS = [['10', '10 min'], ['60', '1 h'], ['1440', '24 h']];

export function useSpan() {
  const { query } = route.use();
  return SPANS.find(([minutes]) => minutes === query.minutes) ?? SPANS[0];
}

export function SpanChoice() {
  const [chosen] = useSpan();
  return html`<div class="tabs" role="group" aria-label="Time shown">${SPANS.map(
    ([minutes, text]) => html`<button type="button" aria-pressed=${chosen === minutes} onClick=${() => choose({ minutes })}>${text}</button>`,
  )}</div>`;
}
