/** Requests to the node. */
import { encoded } from './names.js';
import { store } from './store.js';

const PATIENCE_MS = 10_000;
const NOBODY = 'Login failed';

/** Who has logged in: undefined until known, null for nobody. */
export const user = store(undefined);

/** Counts changes made from this page, so that panels ask again at once. */
export const changes = store(0);

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** The path of an object of the API, its names encoded. */
export function api(...parts) {
  return `/api/${parts.map(encoded).join('/')}`;
}

export function query(path, values) {
  const pairs = Object.entries(values).filter(([, value]) => value !== undefined && value !== '' && value !== false);
  return pairs.length ? `${path}?${pairs.map(([name, value]) => `${name}=${encoded(value)}`).join('&')}` : path;
}

export async function get(path, signal) {
  return answered(await sent('GET', path, undefined, signal));
}

/** When a file that the node serves was written, in ms since 1970. ApiError with the reason if it cannot be read. */
export async function written(path, signal) {
  const response = await sent('HEAD', path, undefined, signal);
  if (!response.ok) await get(path, signal); // the reason is in the body
  return Date.parse(response.headers.get('last-modified'));
}

/** Change something, which may take `patience` ms; every panel asks again afterwards. */
export async function change(method, path, body, patience) {
  try {
    return await answered(await sent(method, path, body, undefined, patience));
  } finally {
    changes.set(changes.get() + 1);
  }
}

/** Ask with a body: a dry run, a message. */
export async function post(path, body, signal) {
  return answered(await sent('POST', path, body, signal));
}

async function sent(method, path, body, signal, patience = PATIENCE_MS) {
  const options = { method, headers: { accept: 'application/json' }, credentials: 'same-origin' };
  const limit = AbortSignal.timeout(patience);
  options.signal = signal ? AbortSignal.any([signal, limit]) : limit;
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers['content-type'] = 'application/json';
  }
  try {
    return await fetch(path, options);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, error.name === 'TimeoutError' ? 'the node does not answer' : 'the node is not reached');
  }
}

async function answered(response) {
  const text = await response.text();
  const found = parsed(text);
  if (response.ok) return found;
  if (found?.reason === NOBODY && user.get()) user.set(null);
  throw new ApiError(response.status, found?.reason || found?.error || found?.detail || `HTTP ${response.status}`);
}

function parsed(text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

/** Learn who has logged in. */
export async function recognize() {
  try {
    user.set(await get('/api/whoami'));
  } catch (error) {
    if (error.status !== 401) throw error;
    user.set(null);
  }
}

export async function logIn(username, password) {
  user.set(await post('/api/session', { username, password }));
}

export async function logOut() {
  await answered(await sent('DELETE', '/api/session'));
  user.set(null);
}

/** Whether the user may change what needs a tag. */
export function may(tag) {
  const tags = [].concat(user.get()?.tags ?? []).flatMap((each) => String(each).split(','));
  return tags.includes('administrator') || tags.includes(tag);
}
