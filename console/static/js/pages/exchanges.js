/** Exchanges, and where each leads. */
import { api, may } from '../api.js';
import { html } from '../lib.js';
import { exchangeShown, shown } from '../names.js';
import { ListPage } from '../parts/listing.js';
import { ExchangeLink, QueueLink } from '../parts/names.js';
import { Opening } from '../parts/dialog.js';
import { Panel } from '../parts/panel.js';
import { Table } from '../parts/table.js';
import { usePoll } from '../poll.js';
import { StopDialog } from './flow_stops.js';
import { argumentsOf } from './queue_ends.js';
import { Publish } from './queue_messages.js';

const yes = (value) => (value ? 'yes' : '');
const COLUMNS = [
  { label: 'Exchange', size: 'minmax(160px, 2fr)', sort: 'name', wide: true, cell: (row) => html`<${ExchangeLink} vhost=${row.vhost} name=${row.name} />` },
  { label: 'Vhost', size: 'minmax(60px, 0.6fr)', sort: 'vhost', cell: (row) => shown(row.vhost) },
  { label: 'Type', size: 'minmax(100px, 1fr)', sort: 'type', cell: (row) => shown(row.type) },
  { label: 'Durable', size: '72px', phone: false, cell: (row) => yes(row.durable) },
  { label: 'Auto-delete', size: '90px', phone: false, cell: (row) => yes(row.auto_delete) },
  { label: 'Internal', size: '72px', phone: false, cell: (row) => yes(row.internal) },
  { label: 'Policy', size: 'minmax(80px, 1fr)', phone: false, cell: (row) => shown(row.policy) },
  { label: 'Arguments', size: 'minmax(80px, 1fr)', phone: false, cell: (row) => argumentsOf(row.arguments) },
];

export default function Exchanges({ parts: [vhost, name] }) {
  if (name !== undefined) return html`<${Exchange} vhost=${vhost} name=${name} />`;
  return html`<${ListPage} title="Exchanges" kind="exchanges" columns=${COLUMNS} every=${5} rowKey=${(row) => `${row.vhost}\n${row.name}`}
    empty="There is no such exchange." />`;
}

function Exchange({ vhost, name }) {
  const path = api('exchanges', vhost, name || 'amq.default');
  const exchange = usePoll(path, 5);
  const out = usePoll(`${path}/bindings/source`, 5);
  const stop = html`<${Opening} label="Stop its producers …" kind="by-hand" needs=${may('administrator') ? '' : 'administrator'}
    dialog=${(close) => html`<${StopDialog} given=${{ vhost, exchange: name }} close=${close} />`} />`;
  return html`<header class="page-head"><h1 class="name">${exchangeShown(name)}</h1>
      <span class="muted">${shown(exchange.data?.type)} exchange in ${shown(vhost)}</span><div class="actions">${name && stop}</div></header>
    <${Panel} title="Leads to" of=${out}>${(rows) => html`<${Destinations} rows=${rows} />`}<//>
    <${Publish} vhost=${vhost} exchange=${name} />`;
}

function Destinations({ rows }) {
  const columns = [
    { label: 'Kind', cell: (row) => row.destination_type },
    { label: 'To', wide: true, cell: destination },
    { label: 'Routing key', cell: (row) => html`<span class="name">${shown(row.routing_key)}</span>` },
    { label: 'Arguments', cell: (row) => argumentsOf(row.arguments) },
  ];
  return html`<${Table} label="Bindings" columns=${columns} rows=${rows} empty="Nothing is bound to this exchange: its messages go nowhere."
    rowKey=${(row) => `${row.destination_type} ${row.destination} ${row.properties_key ?? row.routing_key}`} />`;
}

function destination(row) {
  const Link = row.destination_type === 'queue' ? QueueLink : ExchangeLink;
  return html`<${Link} vhost=${row.vhost} name=${row.destination} />`;
}
