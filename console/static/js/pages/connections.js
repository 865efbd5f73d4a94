/** Connections and channels, and which of them are held. */
import { api, change, may, user } from '../api.js';
import { ago, bytes, count, rate, seconds } from '../format.js';
import { html } from '../lib.js';
import { live } from '../live.js';
import { shown } from '../names.js';
import { Dialog, Opening } from '../parts/dialog.js';
import { heldState, toFlow } from '../parts/held.js';
import { ListPage } from '../parts/listing.js';
import { Mark } from '../parts/mark.js';
import { ConnectionLink } from '../parts/names.js';
import { say } from '../parts/toast.js';
import { choose, route } from '../route.js';

export default function Connections() {
  const { query } = route.use();
  const { held } = live.use();
  const kind = query.kind === 'channels' ? 'channels' : 'connections';
  const kinds = html`<div class="tabs" role="group" aria-label="Kind">
    ${['connections', 'channels'].map((each) => html`<button type="button" aria-pressed=${kind === each}
      onClick=${() => choose({ kind: each, sort: '', reverse: '' })}>${each[0].toUpperCase() + each.slice(1)}</button>`)}</div>`;
  const columns = kind === 'channels' ? channelColumns(held ?? []) : connectionColumns(held ?? []);
  return html`<${ListPage} key=${kind} title=${kind === 'channels' ? 'Channels' : 'Connections'} kind=${kind} bare columns=${columns}
    actions=${kinds} rowKey=${(row) => row.name} empty="There is no such ${kind.slice(0, -1)}." />`;
}

/** Whether a held channel is one of a connection. RabbitMQ names connections by their addresses, penstock by numbers. */
function isOf(held, { name, peer_host: host, peer_port: port } = {}) {
  return held.connection === name || held.peer === `${host}:${port}`;
}

function throttle(row) {
  if (!row) return html`<span class="muted">flows</span>`;
  return html`<a href=${toFlow(row.connection)}>held ${seconds(row.held_seconds)}</a>
    <span class="muted"> ${row.causes?.[0] && shown(row.causes[0].text)}</span>`;
}

function connectionColumns(held) {
  const of = (row) => held.find((each) => isOf(each, row));
  return [
    { label: '', hidden: 'State', size: '20px', cell: (row) => html`<${Mark} state=${of(row) ? heldState(of(row)) : 'flowing'} />` },
    { label: 'Connection', size: 'minmax(160px, 2fr)', sort: 'name', wide: true, cell: (row) => html`<${ConnectionLink} name=${row.name} />` },
    { label: 'Throttle', size: 'minmax(110px, 3fr)', cell: (row) => throttle(of(row)) },
    { label: 'User', size: 'minmax(50px, 0.8fr)', sort: 'user', cell: (row) => shown(row.user) },
    { label: 'Vhost', size: 'minmax(40px, 0.5fr)', sort: 'vhost', phone: false, cell: (row) => shown(row.vhost) },
    { label: 'Client', size: 'minmax(110px, 1.8fr)', phone: false, cell: clientOf },
    { label: 'Channels', size: '62px', sort: 'channels', right: true, phone: false, cell: (row) => count(row.channels) },
    { label: 'In', size: '76px', sort: 'recv_oct_details.rate', right: true, phone: false, cell: (row) => flowOf(row.recv_oct_details) },
    { label: 'Out', size: '76px', sort: 'send_oct_details.rate', right: true, phone: false, cell: (row) => flowOf(row.send_oct_details) },
    { label: 'Since', size: '88px', sort: 'connected_at', right: true, phone: false, cell: (row) => ago(row.connected_at) },
    { label: '', hidden: 'Actions', size: '76px', right: true, phone: false, cell: (row) => html`<${Close} row=${row} />` },
  ];
}

function flowOf(octets) {
  return octets?.rate > 0 ? `${bytes(octets.rate)}/s` : '0';
}

function clientOf(row) {
  const { product, version, connection_name: own } = row.client_properties ?? {};
  const text = [row.ssl ? 'TLS,' : null, own ?? row.user_provided_name, product, version].filter((each) => typeof each === 'string').map(shown).join(' ');
  return html`<span title=${text}>${text}</span>`;
}

function Close({ row }) {
  const act = async () => {
    await change('DELETE', api('connections', row.name));
    say(`Closed ${shown(row.name)}.`);
  };
  return html`<${Opening} label="Close …" kind="small" needs=${may('administrator') || row.user === user.get()?.name ? '' : 'administrator'} dialog=${(close) => html`<${Dialog}
    title=${`Close ${shown(row.name)}`} danger close=${close} act=${act} label="Close the connection">
    <p>User ${shown(row.user)} is cut off; its unacked messages go back to their queues. Most clients connect again.</p><//>`} />`;
}

function channelColumns(held) {
  const connection = (row) => row.connection_details?.name ?? '';
  const of = (row) => held.find((each) => each.channel === row.number && isOf(each, row.connection_details));
  return [
    { label: '', hidden: 'State', size: '20px', cell: (row) => html`<${Mark} state=${of(row) ? heldState(of(row)) : 'flowing'} />` },
    { label: 'Channel', size: 'minmax(200px, 2fr)', sort: 'name', wide: true, cell: (row) => html`<${ConnectionLink} name=${connection(row)} /><span class="muted"> #${row.number}</span>` },
    { label: 'Throttle', size: 'minmax(120px, 1.6fr)', cell: (row) => throttle(of(row)) },
    { label: 'User', size: 'minmax(60px, 0.8fr)', sort: 'user', cell: (row) => shown(row.user) },
    { label: 'Mode', size: '76px', phone: false, cell: (row) => (row.transactional ? 'tx' : row.confirm ? 'confirms' : '') },
    { label: 'Consumers', size: '84px', sort: 'consumer_count', right: true, phone: false, cell: (row) => count(row.consumer_count) },
    { label: 'Prefetch', size: '72px', sort: 'prefetch_count', right: true, phone: false, cell: (row) => count(row.prefetch_count) },
    { label: 'In', size: '72px', sort: 'message_stats.publish_details.rate', right: true, phone: false, cell: (row) => rate(row.message_stats?.publish_details?.rate ?? 0) },
    { label: 'Out', size: '72px', sort: 'message_stats.deliver_get_details.rate', right: true, phone: false, cell: (row) => rate(row.message_stats?.deliver_get_details?.rate ?? 0) },
    { label: 'Unacked', size: '76px', sort: 'messages_unacknowledged', right: true, cell: (row) => count(row.messages_unacknowledged) },
  ];
}
