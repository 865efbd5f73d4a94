/** Shards: the processes that keep queues. */
import { bytes, count, NONE, percent, seconds } from '../format.js';
import { html } from '../lib.js';
import { Meter } from '../parts/depth.js';
import { Badge } from '../parts/mark.js';
import { Empty, Panel } from '../parts/panel.js';
import { usePoll } from '../poll.js';
import { Rebalance } from './shards_rebalance.js';

export default function Shards() {
  const shards = usePoll('/api/shards', 2);
  return html`<header class="page-head"><h1>Shards</h1><span class="muted">each keeps its queues in one process</span></header>
    ${shards.data === undefined || shards.error
      ? html`<${Panel} title="Shards" of=${shards}>${(rows) => html`<${Cards} shards=${rows} />`}<//>`
      : html`<${Cards} shards=${shards.data} />`}
    <${Rebalance} />`;
}

function Cards({ shards }) {
  if (!shards.length) return html`<${Empty}>There are no shards.<//>`;
  return html`<div class="columns">${shards.map((shard) => html`<${Shard} key=${shard.shard} shard=${shard} />`)}</div>`;
}

function Shard({ shard }) {
  const facts = [
    ['CPU', percent(shard.cpu_percent, 100)], ['Memory of the process', bytes(shard.memory)], ['Queues', count(shard.queues)],
    ['Ready', count(shard.ready)], ['Unacked', count(shard.unacked)], ['Stored', bytes(shard.stored_bytes)],
    ['Loop lag p99', seconds(shard.loop_lag_p99_us / 1e6)], ['Commit p99', seconds(shard.commit_p99_us / 1e6)],
    ['Placement', shard.placement ?? NONE],
  ];
  const state = html`<${Badge} state=${shard.saturated ? 'held' : 'flowing'}>${shard.saturated ? 'full, holds producers' : shard.state}<//>`;
  return html`<${Panel} title=${`Shard ${shard.shard}`} actions=${state}>
    ${shard.contents_limit > 0 && html`<${Meter} label="Contents" value=${shard.contents} whole=${shard.contents_limit} />`}
    <dl class="facts">${facts.map(([term, value]) => html`<div><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>
  <//>`;
}
