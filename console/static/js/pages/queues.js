/** All queues, with their depth against their marks. */
import { rate, short, count, plural } from '../format.js';
import { html } from '../lib.js';
import { shown } from '../names.js';
import { DepthBar, queueState } from '../parts/depth.js';
import { ListPage } from '../parts/listing.js';
import { Mark } from '../parts/mark.js';
import { QueueLink } from '../parts/names.js';

const FIELDS = [
  'name', 'vhost', 'state', 'messages', 'messages_ready', 'messages_unacknowledged', 'message_bytes', 'consumers', 'flow',
  'message_stats.publish_details.rate', 'message_stats.deliver_get_details.rate', 'message_stats.ack_details.rate',
];
const stat = (name) => (queue) => rate(queue.message_stats?.[`${name}_details`]?.rate);

const COLUMNS = [
  { label: '', hidden: 'State', size: '20px', cell: (queue) => html`<${Mark} state=${queueState(queue)} />` },
  { label: 'Queue', size: 'minmax(160px, 2.5fr)', sort: 'name', wide: true, cell: (queue) => html`<${QueueLink} ...${queue} />` },
  { label: 'Vhost', size: 'minmax(60px, 0.6fr)', sort: 'vhost', phone: false, cell: (queue) => shown(queue.vhost) },
  { label: 'Depth against marks', size: 'minmax(120px, 1.5fr)', kind: 'bare', cell: (queue) => html`<${DepthBar} queue=${queue} />` },
  { label: 'Messages', size: '84px', sort: 'messages', right: true, kind: 'bare', cell: (queue) => short(queue.messages) },
  { label: 'Ready', size: '76px', sort: 'messages_ready', right: true, phone: false, cell: (queue) => short(queue.messages_ready) },
  { label: 'Unacked', size: '76px', sort: 'messages_unacknowledged', right: true, phone: false, cell: (queue) => short(queue.messages_unacknowledged) },
  { label: 'Consumers', size: '84px', sort: 'consumers', right: true, phone: false, cell: (queue) => count(queue.consumers) },
  { label: 'In', size: '76px', sort: 'message_stats.publish_details.rate', right: true, cell: stat('publish') },
  { label: 'Out', size: '76px', sort: 'message_stats.deliver_get_details.rate', right: true, cell: stat('deliver_get') },
  { label: 'Stops', size: '60px', sort: 'flow.flow_epoch', right: true, phone: false, cell: (queue) => stops(queue.flow) },
  { label: 'Shard', size: '52px', sort: 'flow.shard', right: true, phone: false, cell: (queue) => queue.flow?.shard ?? '' },
];

/** A saturation begins and ends one epoch each. */
function stops(flow) {
  return flow?.flow_epoch === undefined ? '' : html`<span title=${plural(flow.flow_epoch, 'change')}>${count(Math.ceil(flow.flow_epoch / 2))}</span>`;
}

export default function Queues() {
  return html`<${ListPage} title="Queues" kind="queues" columns=${COLUMNS} fields=${FIELDS} rowKey=${(queue) => `${queue.vhost}\n${queue.name}`}
    sort=${{ column: 'messages', reverse: true }} empty="There is no such queue." />`;
}
