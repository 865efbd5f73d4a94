/** Incidents: times in which producers were held, and now over. */
import { clock, count, instant, seconds } from '../format.js';
import { html } from '../lib.js';
import { live } from '../live.js';
import { shown } from '../names.js';
import { Cause, causesOf } from '../parts/held.js';
import { IncidentTable } from '../parts/incident_table.js';
import { Empty, Panel } from '../parts/panel.js';
import { Table } from '../parts/table.js';
import { usePoll } from '../poll.js';
import { choose, route } from '../route.js';

const SPANS = [['1', '1 h'], ['6', '6 h'], ['24', '24 h']];
const ROWS = 12;
const HOUR = 3600_000;

export default function Incidents() {
  const { query } = route.use();
  const incidents = usePoll('/api/flow/incidents?last=50', 5);
  const hours = SPANS.some(([each]) => each === query.hours) ? query.hours : '24';
  const actions = html`<div class="tabs" role="group" aria-label="Time">${SPANS.map(
    ([value, text]) => html`<button type="button" aria-pressed=${hours === value} onClick=${() => choose({ hours: value })}>${text}</button>`)}</div>`;
  const chosen = (rows) => rows.filter((row) => !query.vhost || !row.vhost || row.vhost === query.vhost);
  return html`<header class="page-head"><h1>Incidents</h1><span class="muted">times in which producers were held, and now over</span></header>
    <${Panel} title=${`Last ${hours} h`} of=${incidents} actions=${actions}>
      ${(rows) => html`<${Timeline} incidents=${chosen(rows)} hours=${Number(hours)} />`}<//>
    <${Now} vhost=${query.vhost} />
    <${Panel} title="The last 50" of=${incidents}>${(rows) => html`<${IncidentTable} incidents=${chosen(rows)} />`}<//>`;
}

/** What holds producers now: not yet an incident, which has an end. */
function Now({ vhost }) {
  const { held, error, at } = live.use();
  const of = { data: held?.filter((row) => !vhost || row.vhost === vhost), error, at };
  const columns = [
    { label: 'Cause', wide: true, cell: (cause) => html`<${Cause} cause=${cause} />` },
    { label: 'Channels', right: true, cell: (cause) => count(cause.channels) },
    { label: 'Held for, at most', right: true, cell: (cause) => seconds(cause.longest) },
  ];
  return html`<${Panel} title="Now" of=${of}>${(rows) => html`<${Table} label="What holds producers now" columns=${columns}
    rows=${causesOf(rows)} rowKey=${(cause) => `${cause.kind} ${cause.vhost} ${cause.name ?? cause.number ?? cause.text}`} empty="Nobody is held." />`}<//>`;
}

function Timeline({ incidents, hours }) {
  const now = Date.now();
  const begin = now - hours * HOUR;
  const shownOnes = incidents.filter((row) => instant(row.ended) > begin);
  if (!shownOnes.length) return html`<${Empty}>No producer was held.<//>`;
  const groups = [...Map.groupBy(shownOnes, subject)].slice(0, ROWS);
  return html`<div class="timeline">
    ${groups.map(([name, rows]) => html`<div class="timeline-row" key=${name}>
      <span class="name" title=${shown(name)}>${shown(name)}</span>
      <div class="timeline-track" role="img" aria-label=${`${rows.length} times, ${seconds(rows.reduce((sum, row) => sum + row.seconds, 0))} in all`}>
        ${rows.map((row) => html`<${Span} row=${row} begin=${begin} width=${now - begin} />`)}
      </div></div>`)}
    <div class="timeline-row"><span></span><div class="timeline-axis"><span>${clock(begin)}</span><span>now</span></div></div>
  </div>`;
}

function subject(row) {
  return row.queue ?? row.cause ?? row.kind;
}

function Span({ row, begin, width }) {
  const left = Math.max((instant(row.begun) - begin) / width, 0);
  const right = Math.min((instant(row.ended) - begin) / width, 1);
  const words = `${clock(row.begun)}, ${seconds(row.seconds)}, ${row.stops} stops`;
  const state = row.kind === 'stop' ? 'by-hand' : 'held';
  return html`<i class="timeline-span is-${state}" title=${words} style=${{ left: `${100 * left}%`, width: `${100 * (right - left)}%` }}></i>`;
}
