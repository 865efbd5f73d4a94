/** Panels ask for what they show again and again, while the page is visible. */
import { changes, get } from './api.js';
import { useEffect, useRef, useState } from './lib.js';
import { lastAnswer } from './pulse.js';

const NOTHING = { data: undefined, error: null, at: 0 };

/** The newest answer to a GET, the error of the last try, and the time of the answer. No path, no request. */
export function usePoll(path, every = 2) {
  const [state, setState] = useState(NOTHING);
  const asked = useRef(path);
  useEffect(() => {
    asked.current = path;
    setState(NOTHING);
    return path ? polled(path, every, setState) : undefined;
  }, [path, every]);
  return asked.current === path ? state : NOTHING;
}

/** Ask every so many seconds, at once after a change or when the page is shown; returns a function that ends it. */
export function polled(path, every, report) {
  const ended = new AbortController();
  const turn = async () => {
    try {
      const data = await get(path, ended.signal);
      if (ended.signal.aborted) return;
      lastAnswer.set(Date.now());
      report({ data, error: null, at: Date.now() });
    } catch (error) {
      if (!ended.signal.aborted) report((old) => ({ ...old, error }));
    }
  };
  const stop = repeated(turn, every);
  return () => {
    ended.abort();
    stop();
  };
}

/** Call a function every so many seconds, at once after a change or when the page is shown; never twice at a time. */
export function repeated(turn, every) {
  let timer = 0;
  let ended = false;
  let busy = false;
  let due = false;
  const run = async () => {
    clearTimeout(timer);
    due = busy;
    if (ended || busy || document.hidden) return;
    busy = true;
    await turn();
    busy = false;
    if (ended) return;
    if (due) run();
    else timer = setTimeout(run, every * 1000);
  };
  const forget = changes.follow(run);
  document.addEventListener('visibilitychange', run);
  run();
  return () => {
    ended = true;
    clearTimeout(timer);
    forget();
    document.removeEventListener('visibilitychange', run);
  };
}
