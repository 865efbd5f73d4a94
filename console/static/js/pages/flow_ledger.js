/** Who has cost whom how much time: held seconds, summed. */
import { query } from '../api.js';
import { count, seconds } from '../format.js';
import { html } from '../lib.js';
import { shown } from '../names.js';
import { Panel } from '../parts/panel.js';
import { Table } from '../parts/table.js';
import { usePoll } from '../poll.js';
import { choose } from '../route.js';

const SIDES = [['user', 'user'], ['queue', 'queue']];

export function Ledger({ by }) {
  const ledger = usePoll(query('/api/flow/ledger', { by }), 5);
  const actions = html`<div class="tabs" role="group" aria-label="Ledger by">
    ${SIDES.map(([name, text]) => html`<button type="button" aria-pressed=${by === name} onClick=${() => choose({ ledger: name })}>by ${text}</button>`)}
  </div>`;
  const columns = [
    { label: by === 'queue' ? 'Queue' : 'User', wide: true, cell: (row) => html`<span class="name">${shown(row.name ?? row[by])}</span>` },
    { label: 'Held for, in all', right: true, cell: (row) => seconds(row.seconds ?? row.held_seconds) },
    { label: 'Stops', right: true, cell: (row) => count(row.stops) },
  ];
  return html`<${Panel} title="Ledger" note="since the node began" of=${ledger} actions=${actions}>
    ${(rows) => html`<${Table} label="Ledger" columns=${columns} rows=${rows.items ?? rows}
      rowKey=${(row) => `${row.vhost} ${row.name ?? row[by]}`} empty="Nobody has been held yet." />`}<//>`;
}
