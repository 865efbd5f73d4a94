/** A plan of moves: the shards before and after, and each move. */
import { change } from '../api.js';
import { bytes, clock, count, plural, rate, seconds } from '../format.js';
import { html } from '../lib.js';
import { shown } from '../names.js';
import { Act, Dialog, Opening } from '../parts/dialog.js';
import { QueueLink } from '../parts/names.js';
import { Panel } from '../parts/panel.js';
import { Table } from '../parts/table.js';
import { say } from '../parts/toast.js';
import { store } from '../store.js';

/** The plan that is shown, or null. It stays while one visits other pages. */
export const made = store(null);

const GOALS = [
  ['load', 'Messages/s', rate], ['bytes', 'Bytes/s', (value) => `${bytes(value)}/s`], ['queues', 'Queues', count],
  ['held', 'Queues stopped', (value) => value.toFixed(1)],
];
const MOVES_SHOWN = 100;

export function Plan({ plan, needs }) {
  const { moves } = plan;
  const actions = html`${moves.length > 0 && html`<${Opening} label="Apply …" kind="primary" needs=${needs}
      dialog=${(close) => html`<${Apply} plan=${plan} close=${close} />`} />`}
    <${Act} label="Discard" act=${() => made.set(null)} />`;
  return html`<${Panel} title="Plan: before → after" note=${`${plan.id}, from ${plan.inputs.source}`} actions=${actions}>
      <${Shards} plan=${plan} /><//>
    <${Panel} title=${plural(moves.length, 'planned move')} note=${moves.length ? `may be applied until ${clock(plan.expires)}` : ''}>
      <${Table} label="Planned moves" columns=${MOVES} rows=${moves.slice(0, MOVES_SHOWN)} rowKey=${(move) => `${move.vhost} ${move.queue}`}
        empty="No queue has to move." />
      ${moves.length > MOVES_SHOWN && html`<p class="note below">And ${count(moves.length - MOVES_SHOWN)} more.</p>`}
      ${plan.notes.slice(0, MOVES_SHOWN).map((note) => html`<p class="note below">${shown(note)}.</p>`)}<//>`;
}

function Shards({ plan }) {
  const { before, after } = plan;
  const cell = (goal, write) => (shard) => changed(before[goal].shards[shard], after[goal].shards[shard], write);
  const columns = [
    { label: 'Shard', wide: true, cell: (shard) => html`<strong>Shard ${shard}</strong>` },
    ...GOALS.map(([goal, label, write]) => ({ label, right: true, cell: cell(goal, write) })),
  ];
  const most = (score) => score.load.max_over_mean.toFixed(2);
  return html`<${Table} label="Shards before and after" columns=${columns} rows=${Object.keys(before.load.shards)} rowKey=${(shard) => shard} />
    <p class="note below">The busiest shard has ${most(before)} times the mean load, afterwards ${most(after)} times.</p>`;
}

function changed(before, after, write) {
  const [old, next] = [write(before), write(after)];
  return old === next ? old : html`<span>${old} → <strong>${next}</strong></span>`;
}

const MOVES = [
  { label: 'Queue', wide: true, cell: (move) => html`<${QueueLink} vhost=${move.vhost} name=${move.queue} />` },
  { label: 'From → to', cell: (move) => `${move.from} → ${move.to}` },
  { label: 'For', cell: (move) => move.for },
  { label: 'Rate', right: true, cell: (move) => rate(move.rate) },
  { label: 'Copies', right: true, cell: (move) => `${count(move.messages)}, ${bytes(move.bytes)}` },
  { label: 'Pause', right: true, cell: (move) => seconds(move.pause_ms / 1000) },
];

function Apply({ plan, close }) {
  const { id, moves } = plan;
  const sum = (name) => moves.reduce((all, move) => all + move[name], 0);
  const pause = seconds(Math.max(...moves.map((move) => move.pause_ms)) / 1000);
  const act = async () => {
    await change('POST', '/api/rebalance/apply', { plan: id });
    made.set(null);
    say(`Plan ${id} is being applied.`);
  };
  return html`<${Dialog} title=${`Apply plan ${id}`} close=${close} act=${act} label=${`Make ${plural(moves.length, 'move')}`}>
    <p>Copies ${plural(sum('messages'), 'message')}, ${bytes(sum('bytes'))}, queue after queue. Producers and consumers of a queue
      wait for about ${pause} while it changes shards; no message is lost.</p>
    <p class="muted">It goes on when this page is closed, and ends with the console's process; the command
      ${' '}<code>penstock rebalance apply ${id}</code> then continues it.</p>
  <//>`;
}
