/** Why a connection waits, step by step: the graph in words. */
import { api } from '../api.js';
import { html } from '../lib.js';
import { shown } from '../names.js';
import { Empty, Panel } from '../parts/panel.js';
import { usePoll } from '../poll.js';
import { toConnection } from '../route.js';

export function Why({ connection }) {
  const why = usePoll(api('flow', 'why', connection), 1);
  const actions = html`<a href=${toConnection(connection)}>The connection</a>`;
  return html`<${Panel} title=${`Why ${shown(connection)} waits`} of=${why} actions=${actions}>
    ${(data) => html`<${Lines} lines=${data.lines ?? data} />`}<//>`;
}

function Lines({ lines }) {
  if (!lines.length) return html`<${Empty}>It waits for nothing.<//>`;
  return html`<ul class="why">
    ${lines.map((line, index) => html`<li key=${index} class=${line.depth ? 'why-step' : 'why-first'} style=${{ '--depth': line.depth }}>
      ${shown(line.text)}</li>`)}
  </ul>`;
}
