/** Who has cost whom how much time: held seconds, summed. */
import { query } from '../api.js';
import { count, seconds } from '../format.js';
import { html } from '../lib.js';
import { shown } from '../names.js';
import { QueueLink } from '../parts/names.js';
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
    { label: by === 'queue' ? 'Queue' : 'User', wide: true, cell: (row) => named(row, by) },
    { label: 'Held for, in all', right: true, cell: (row) => seconds(row.seconds) },
    { label: 'Stops', right: true, cell: (row) => count(row.stops) },
  ];
  return html`<${Panel} title="Ledger" note="since the node began" of=${ledger} actions=${actions}>
    ${(rows) => html`<${Table} label="Ledger" columns=${columns} rows=${accounts(rows, by)}
      rowKey=${(row) => `${row.vhost} ${row.name}`} empty="Nobody has been held yet." />`}<//>`;
}

/** The accounts of one kind, the largest first. */
function accounts(rows, by) {
  return rows.filter((row) => (row.by ?? by) === by).sort((one, other) => other.seconds - one.seconds);
}

/** The account of what is no queue has its kind as its name, in brackets. */
function named(row, by) {
  if (by === 'queue' && row.vhost && !row.name.startsWith('(')) return html`<${QueueLink} vhost=${row.vhost} name=${row.name} />`;
  return html`<span class="name">${shown(row.name)}</span>`;
}
