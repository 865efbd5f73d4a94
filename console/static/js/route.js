/** The page's address after `#`: a page, names, and what is chosen on it. */
import { encoded, decoded } from './names.js';
import { store } from './store.js';

function read() {
  const [path, search = ''] = location.hash.replace(/^#\/?/, '').split('?');
  const [page, ...parts] = path.split('/').map(decoded);
  const pairs = search.split('&').filter(Boolean).map((pair) => pair.split('='));
  return { page: page || 'overview', parts, query: Object.fromEntries(pairs.map(([name, value = '']) => [name, decoded(value)])) };
}

export const route = store(read());
addEventListener('hashchange', () => route.set(read()));

/** The address of a page. The chosen vhost goes along. */
export function to(parts, query = {}) {
  const all = { vhost: route.get().query.vhost, ...query };
  const pairs = Object.entries(all).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const search = pairs.map(([name, value]) => `${name}=${encoded(value)}`).join('&');
  return `#/${[].concat(parts).map(encoded).join('/')}${search ? `?${search}` : ''}`;
}

export function go(parts, query) {
  location.hash = to(parts, query);
}

/** Choose something on this page; "" takes a choice back. Does not add to the browser's history. */
export function choose(values) {
  const { page, parts, query } = route.get();
  history.replaceState(null, '', to([page, ...parts], { ...query, ...values }));
  route.set(read());
}

export const toQueue = (vhost, name) => to(['queue', vhost, name]);
export const toConnection = (name) => to(['connections'], { name });
export const toExchange = (vhost, name) => to(['exchanges', vhost, name]);
