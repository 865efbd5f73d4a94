/** A value that components follow. */
import { useEffect, useState } from './lib.js';

export function store(value) {
  const followers = new Set();
  const get = () => value;
  const set = (next) => {
    value = next;
    for (const follower of [...followers]) follower(next);
  };
  const follow = (follower) => {
    followers.add(follower);
    return () => followers.delete(follower);
  };
  const use = () => {
    const [, redraw] = useState({});
    useEffect(() => follow(() => redraw({})), []);
    return value;
  };
  return { get, set, follow, use };
}
