/** Held channels and stops, for all pages from one source.
 *
 * The stream of events says when something has changed; what is shown is asked for then, at most four times a second,
 * and every second while there is no stream.
 */
import { get, user } from './api.js';
import { repeated } from './poll.js';
import { lastAnswer } from './pulse.js';
import { store } from './store.js';

const EVENTS = ['snapshot', 'held', 'released', 'rung', 'queue', 'stop', 'gap'];
const MERGED_MS = 250;
const RETRY_MS = 3000;
const EVERY = 1;

export const live = store({ held: undefined, stops: undefined, error: null, stopsError: null, at: 0 });

let stream = null;
let wanted = 0;
let retry = 0;

async function ask() {
  const [held, stops] = await Promise.allSettled([get('/api/flow/held'), get('/api/flow/stops')]);
  const old = live.get();
  if (held.status === 'fulfilled') lastAnswer.set(Date.now());
  live.set({
    held: held.value ?? old.held,
    stops: stops.value ?? old.stops,
    error: held.reason ?? null,
    stopsError: stops.reason ?? null,
    at: held.status === 'fulfilled' ? Date.now() : old.at,
  });
}

function open() {
  clearTimeout(retry);
  if (stream || document.hidden) return;
  stream = new EventSource('/api/flow/events');
  for (const kind of EVENTS) stream.addEventListener(kind, note);
  stream.onerror = () => {
    close();
    retry = setTimeout(open, RETRY_MS);
  };
}

function close() {
  clearTimeout(retry);
  stream?.close();
  stream = null;
}

function note() {
  if (wanted) return;
  wanted = setTimeout(() => {
    wanted = 0;
    ask();
  }, MERGED_MS);
}

/** Follow the node until the returned function is called. */
export function follow() {
  const seen = () => (document.hidden ? close() : open());
  document.addEventListener('visibilitychange', seen);
  open();
  const stop = repeated(ask, EVERY);
  return () => {
    stop();
    close();
    document.removeEventListener('visibilitychange', seen);
    if (!user.get()) live.set({ held: undefined, stops: undefined, error: null, stopsError: null, at: 0 });
  };
}
