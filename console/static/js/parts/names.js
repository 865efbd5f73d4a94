/** Names of objects, as links to them. */
import { html } from '../lib.js';
import { exchangeShown, shown } from '../names.js';
import { toConnection, toExchange, toQueue } from '../route.js';

export function Name({ children }) {
  return html`<span class="name" title=${shown(children)}>${shown(children)}</span>`;
}

export function QueueLink({ vhost, name }) {
  return html`<a class="name" href=${toQueue(vhost, name)} title=${`${shown(name)} in ${shown(vhost)}`}>${shown(name) || '(no name)'}</a>`;
}

export function ConnectionLink({ name, children }) {
  return html`<a class="name" href=${toConnection(name)} title=${shown(name)}>${children ?? peerOf(name)}</a>`;
}

/** The client's side of a connection's name, which tells connections apart. */
function peerOf(name) {
  return shown(String(name ?? '').split(' -> ')[0]);
}

export function ExchangeLink({ vhost, name }) {
  return html`<a class="name" href=${toExchange(vhost, name)} title=${exchangeShown(name)}>${exchangeShown(name)}</a>`;
}
