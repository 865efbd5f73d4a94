/** The node at a glance: is anybody held, how much goes through, how full is it. */
import { query, api } from '../api.js';
import { ago, bytes, count, percent, plural, rate, seconds, short } from '../format.js';
import { html } from '../lib.js';
import { live } from '../live.js';
import { shown } from '../names.js';
import { Chart, Spark } from '../parts/chart.js';
import { DepthBar, Meter, queueState } from '../parts/depth.js';
import { causesOf } from '../parts/held.js';
import { IncidentTable } from '../parts/incident_table.js';
import { Badge, Mark } from '../parts/mark.js';
import { QueueLink } from '../parts/names.js';
import { Empty, Panel } from '../parts/panel.js';
import { SpanChoice, useSpan } from '../parts/span.js';
import { Table } from '../parts/table.js';
import { usePoll } from '../poll.js';
import { route, to } from '../route.js';

const FULLEST = { sort: 'messages', sort_reverse: 'true', page: 1, page_size: 6 };

export default function Overview() {
  const overview = usePoll('/api/overview', 2);
  const [minutes, span] = useSpan();
  const history = usePoll(`/api/history?minutes=${minutes}`, 2);
  const shards = usePoll('/api/shards', 2);
  const processes = usePoll('/api/processes', 2);
  const nodes = usePoll('/api/nodes', 5);
  const incidents = usePoll('/api/flow/incidents?last=5', 5);
  const { query: chosen } = route.use();
  const queues = usePoll(query(chosen.vhost ? api('queues', chosen.vhost) : api('queues'), FULLEST), 2);
  return html`<header class="page-head"><h1>Overview</h1><span class="muted">${nodeLine(overview.data)}</span>
      <div class="actions"><${SpanChoice} /></div></header>
    <${Headline} incidents=${incidents.data} />
    <${Tiles} overview=${overview.data} history=${history.data} shards=${shards.data} />
    <div class="columns">
      <${Panel} title="Messages a second" note=${`last ${span}`} of=${history}>${(data) => html`<${Rates} data=${data} />`}<//>
      <${Panel} title="Waiting" note=${`last ${span}, shaded: producers held`} of=${history}>${(data) => html`<${Depths} data=${data} />`}<//>
    </div>
    <div class="columns">
      <${Panel} title="Fullest queues" of=${queues} actions=${html`<a href=${to(['queues'])}>All queues</a>`}>
        ${(data) => html`<${Fullest} queues=${data.items ?? data.slice(0, FULLEST.page_size)} />`}<//>
      <${Panel} title="Memory and disk" of=${shards}>${(data) => html`<${Rooms} shards=${data} node=${nodes.data?.[0]} />`}<//>
    </div>
    <div class="columns">
      <${Panel} title="Processes" of=${processes} actions=${html`<a href=${to(['shards'])}>Shards</a>`}>
        ${(data) => html`<${Processes} processes=${data} />`}<//>
      <${Panel} title="Last incidents" of=${incidents} actions=${html`<a href=${to(['incidents'])}>All incidents</a>`}>
        ${(data) => html`<${IncidentTable} incidents=${data} short />`}<//>
    </div>`;
}

function nodeLine(overview) {
  if (!overview) return '';
  const version = overview.product_version ?? overview.management_version;
  return [overview.node && shown(overview.node), version && `penstock ${version}`].filter(Boolean).join(' · ');
}

/** The one sentence that an operator wants first. */
function Headline({ incidents }) {
  const { held, error } = live.use();
  if (held === undefined) return error ? html`<p class="headline">Who is held is not known: ${error.message}.</p>` : null;
  if (!held.length) {
    const last = incidents?.[0];
    return html`<p class="headline is-flowing"><${Mark} state="flowing" word=${false} /> <strong>Nobody is held.</strong>
      ${last && html`<span class="muted">Last: ${shown(last.queue ?? last.cause)}, ${ago(last.ended)}.</span>`}</p>`;
  }
  const causes = causesOf(held);
  return html`<a class="headline lit is-${causes[0]?.kind === 'stop' ? 'by-hand' : 'held'}" href=${to(['flow'])}>
    <${Mark} state=${causes[0]?.kind === 'stop' ? 'by-hand' : 'held'} word=${false} />
    <strong>${plural(held.length, 'channel')} held</strong>
    <span>${causes.slice(0, 2).map((each) => shown(each.text)).join('; ')}${causes.length > 2 ? `; ${causes.length - 2} more` : ''}</span>
    <span class="go">Why?</span></a>`;
}

function Tiles({ overview, history, shards }) {
  const { held } = live.use();
  const totals = overview?.queue_totals ?? {};
  const stats = overview?.message_stats ?? {};
  const sum = (field) => shards?.reduce((total, each) => total + (each[field] ?? 0), 0);
  const parked = held?.reduce((total, each) => total + (each.parked_bytes ?? 0), 0);
  return html`<div class="tiles">
    <${Tile} label="In" value=${rate(stats.publish_details?.rate)} values=${history?.publish} />
    <${Tile} label="Out" value=${rate(stats.deliver_get_details?.rate)} values=${history?.deliver} />
    <${Tile} label="Ready" value=${short(totals.messages_ready ?? sum('ready'))} values=${history?.ready} />
    <${Tile} label="Unacked" value=${short(totals.messages_unacknowledged ?? sum('unacked'))} values=${history?.unacked} />
    <${Tile} label="Held channels" value=${count(held?.length)} values=${history?.held} state=${held?.length ? 'held' : 'flowing'} />
    <${Tile} label="Parked" value=${bytes(parked)} />
  </div>`;
}

function Tile({ label, value, values = [], state = 'flowing' }) {
  return html`<div class="tile ${state === 'held' ? 'is-held' : ''}"><span class="tile-label">${label}</span>
    <strong class="tile-value">${value}</strong><${Spark} values=${values} state=${state} /></div>`;
}

function Rates({ data }) {
  const series = [
    { label: 'in', values: data.publish, color: '--flowing', fill: true },
    { label: 'out', values: data.deliver, color: '--text' },
    { label: 'acked', values: data.ack ?? [], color: '--muted', dash: [4, 4] },
  ].filter((each) => each.values?.length === data.at.length);
  return html`<${Chart} label="Messages a second" at=${data.at} series=${series} write=${rate} group="overview" />`;
}

function Depths({ data }) {
  const series = [
    { label: 'ready', values: data.ready, color: '--flowing', fill: true },
    { label: 'unacked', values: data.unacked, color: '--near' },
  ].filter((each) => each.values?.length === data.at.length);
  return html`<${Chart} label="Waiting messages" at=${data.at} series=${series} shaded=${data.held} write=${short} group="overview" />`;
}

function Fullest({ queues }) {
  const columns = [
    { label: '', hidden: 'State', kind: 'sign', cell: (queue) => html`<${Mark} state=${queueState(queue)} />` },
    { label: 'Queue', wide: true, cell: (queue) => html`<${QueueLink} ...${queue} />` },
    { label: 'Depth against marks', kind: 'bare', cell: (queue) => html`<${DepthBar} queue=${queue} />` },
    { label: 'Messages', right: true, cell: (queue) => short(queue.messages) },
    { label: 'In', right: true, phone: false, cell: (queue) => rate(queue.message_stats?.publish_details?.rate) },
    { label: 'Out', right: true, phone: false, cell: (queue) => rate(queue.message_stats?.deliver_get_details?.rate) },
  ];
  return html`<${Table} label="Fullest queues" columns=${columns} rows=${queues} rowKey=${(queue) => `${queue.vhost}/${queue.name}`}
    empty="There are no queues." />`;
}

function Rooms({ shards, node }) {
  const disk = node?.disk_free !== undefined && html`<p class="fact"><span>Disk free</span>
    <strong>${bytes(node.disk_free)}</strong>${node.disk_free_limit ? html`<span class="muted">limit ${bytes(node.disk_free_limit)}</span>` : ''}</p>`;
  return html`<div class="meters">
    ${shards.map((shard) => html`<${Meter} key=${shard.shard} label=${`Shard ${shard.shard}`} value=${shard.contents} whole=${shard.contents_limit} />`)}
    ${disk}
    <p class="fact"><span>Stored</span><strong>${bytes(shards.reduce((total, each) => total + (each.stored_bytes ?? 0), 0))}</strong></p>
  </div>`;
}

const nameOf = (process) => `${process.role} ${process.index}`;

function Processes({ processes }) {
  const columns = [
    { label: 'Process', cell: (process) => html`<strong>${nameOf(process)}</strong>` },
    { label: 'State', cell: (process) => html`<${Badge} state=${process.state === 'ready' ? 'flowing' : 'held'}>${process.state}<//>` },
    { label: 'CPU', right: true, cell: (process) => percent(process.cpu_percent, 100) },
    { label: 'Memory', right: true, cell: (process) => bytes(process.memory) },
    { label: 'Restarts', right: true, phone: false, cell: (process) => count(process.restarts) },
  ];
  return html`<${Table} label="Processes" columns=${columns} rows=${processes} rowKey=${nameOf} />`;
}
