/** Rebalancing: moves in progress, the plan that is being applied, and a plan to make. */
import { change, may } from '../api.js';
import { ago, count, plural } from '../format.js';
import { html, useState } from '../lib.js';
import { shown } from '../names.js';
import { Meter } from '../parts/depth.js';
import { Choice, Dialog, Opening } from '../parts/dialog.js';
import { Badge } from '../parts/mark.js';
import { QueueLink } from '../parts/names.js';
import { Panel } from '../parts/panel.js';
import { Table } from '../parts/table.js';
import { say } from '../parts/toast.js';
import { usePoll } from '../poll.js';
import { made, Plan } from './shards_plan.js';

const WINDOWS = [[5, '5 s'], [30, '30 s'], [120, '2 min']];
const BEYOND_MS = 70_000;

export function Rebalance() {
  const rebalance = usePoll('/api/rebalance', 2);
  const plan = made.use();
  const needs = may('administrator') ? '' : 'administrator';
  const actions = html`<${Opening} label="Make a plan …" needs=${needs} dialog=${(close) => html`<${Make} close=${close} />`} />`;
  const planning = rebalance.data?.planning; // in the heading, where it moves nothing when it comes and goes
  const note = planning
    ? `${shown(planning.user)} makes a plan from the load of ${planning.window} s`
    : 'queues move to other shards while they are in use';
  return html`<${Panel} title="Rebalance" note=${note} of=${rebalance} actions=${actions}>
      ${(data) => html`<${Progress} lease=${data.lease} applying=${data.applying} needs=${needs} />
        ${data.last && html`<${Last} last=${data.last} />`}
        <${Moves} moves=${data.moves} />`}<//>
    ${plan && html`<${Plan} plan=${plan} needs=${needs} />`}`;
}

function Make({ close }) {
  const [window, choose] = useState(30);
  const [begun, setBegun] = useState(false);
  const act = async () => {
    setBegun(true);
    try {
      made.set(await change('POST', '/api/rebalance/plan', { window }, window * 1000 + BEYOND_MS));
    } finally {
      setBegun(false);
    }
  };
  return html`<${Dialog} title="Make a plan" close=${close} act=${act} label="Watch, then show the plan">
    <p>Watches how much each queue does, and shows which ones should move so that no shard has much more load than the others.
      Nothing is moved.</p>
    <${Choice} name="window" legend="Watch for" value=${window} options=${WINDOWS} choose=${choose} />
    <p class="outcome" role="status">${begun ? 'Watching …' : 'A longer time shows the usual load better.'}</p>
  <//>`;
}

function Progress({ lease, applying, needs }) {
  if (!lease) return applying && html`<p class="note" role="status">Plan ${applying.plan} begins.</p>`;
  const { moves, done, waits_for: cause } = lease.progress;
  const state = lease.abort ? 'Is being aborted.' : cause ? `Waits: ${shown(cause)}.` : '';
  return html`<div class="outcome" role="group" aria-label="Progress">
    <strong>Plan ${shown(lease.plan)} is being applied</strong>
    <${Meter} label="Moves" value=${done} whole=${moves} write=${count} state="flowing" />
    <span class="muted">By ${applying?.plan === lease.plan ? `${shown(applying.user)}, as ` : ''}${shown(lease.holder)}. ${state}</span>
    ${!lease.abort && html`<p><${Opening} label="Abort …" kind="small" needs=${needs} dialog=${(close) => html`<${Abort} plan=${lease.plan} close=${close} />`} /></p>`}
  </div>`;
}

function Abort({ plan, close }) {
  const act = async () => {
    await change('POST', '/api/rebalance/abort', { plan });
    say(`Plan ${shown(plan)} is being aborted.`);
  };
  return html`<${Dialog} title=${`Abort plan ${shown(plan)}`} danger close=${close} act=${act} label="Abort the plan">
    <p>The present move is rolled back if it still can be. Queues that have been moved stay where they are now.</p><//>`;
}

function Last({ last }) {
  const moved = Number.isFinite(last.moves) ? `, ${count(last.moved)} of ${plural(last.moves, 'move')}` : '';
  return html`<p class="below"><${Badge} state=${last.state === 'applied' ? 'flowing' : 'near'}>${last.state}<//>
    ${' '}Last plan here: ${shown(last.plan)} by ${shown(last.user)}${moved}${last.reason ? `: ${shown(last.reason)}` : ''}.</p>`;
}

function Moves({ moves }) {
  const columns = [
    { label: 'Queue', wide: true, cell: (move) => html`<${QueueLink} vhost=${move.vhost} name=${move.name} />` },
    { label: 'From → to', cell: (move) => html`${move.source} → ${move.target}` },
    { label: 'Phase', cell: (move) => move.phase },
    { label: 'Since', cell: (move) => ago(move.since) },
  ];
  return html`<${Table} label="Moves in progress" columns=${columns} rows=${moves} rowKey=${(move) => `${move.vhost} ${move.name}`} empty="No queue is being moved." />`;
}
