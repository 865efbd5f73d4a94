/** The two ends of a queue: consumers, bindings. */
import { count, seconds } from '../format.js';
import { html } from '../lib.js';
import { shown } from '../names.js';
import { Badge } from '../parts/mark.js';
import { ConnectionLink, ExchangeLink } from '../parts/names.js';
import { Panel } from '../parts/panel.js';
import { Table } from '../parts/table.js';
import { usePoll } from '../poll.js';

/** `queue`: the answer about the queue, in which its consumers are. */
export function Consumers({ queue }) {
  const columns = [
    { label: 'Tag', wide: true, cell: (row) => html`<span class="name" title=${shown(row.consumer_tag)}>${shown(row.consumer_tag)}</span>` },
    { label: 'Connection', cell: (row) => html`<${ConnectionLink} name=${row.channel_details?.connection_name} />` },
    { label: 'User', phone: false, cell: (row) => shown(row.channel_details?.user) },
    { label: 'In hand', right: true, cell: inHand },
    { label: 'Last ack', right: true, phone: false, cell: (row) => (Number.isFinite(row.settled_seconds) ? `${seconds(row.settled_seconds)} ago` : 'none yet') },
  ];
  return html`<${Panel} title="Consumers" note=${queue.data && count(queue.data.consumers)} of=${queue}>
    ${(data) => html`<${Table} label="Consumers" columns=${columns} rows=${data.consumer_details ?? []}
      rowKey=${(row) => `${row.channel_details?.name ?? row.channel_details?.connection_name} ${row.consumer_tag}`}
      empty=${data.consumers ? 'The consumers are not listed.' : 'Nobody consumes from this queue.'} />`}<//>`;
}

/** Unacked deliveries of a consumer: one with its hands full drains nothing. */
function inHand(row) {
  const most = row.prefetch_count;
  if (row.in_hand === undefined) return most ? `prefetch ${count(most)}` : 'no prefetch';
  const text = most ? `${count(row.in_hand)} of ${count(most)}` : count(row.in_hand);
  return most && row.in_hand >= most ? html`<${Badge} state="cause">${text}<//>` : text;
}

export function Bindings({ path }) {
  const bindings = usePoll(`${path}/bindings`, 10);
  const columns = [
    { label: 'From', wide: true, cell: (row) => (row.source === '' ? html`<span class="muted">(default)</span>` : html`<${ExchangeLink} vhost=${row.vhost} name=${row.source} />`) },
    { label: 'Routing key', cell: (row) => html`<span class="name">${shown(row.routing_key)}</span>` },
    { label: 'Arguments', cell: (row) => argumentsOf(row.arguments) },
  ];
  return html`<${Panel} title="Bindings" of=${bindings}>
    ${(rows) => html`<${Table} label="Bindings" columns=${columns} rows=${rows} rowKey=${(row) => `${row.source} ${row.properties_key ?? row.routing_key}`}
      empty="Nothing is bound to this queue." />`}<//>`;
}

export function argumentsOf(values) {
  const pairs = Object.entries(values ?? {});
  if (!pairs.length) return '';
  return html`<span class="name">${pairs.map(([name, value]) => `${shown(name)}: ${shown(typeof value === 'object' ? JSON.stringify(value) : value)}`).join(', ')}</span>`;
}
