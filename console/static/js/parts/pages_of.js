/** Long lists: pages of 500 rows, asked for as they come into view and kept fresh while they are. */
import { get, query } from '../api.js';
import { useEffect, useMemo, useReducer } from '../lib.js';
import { repeated } from '../poll.js';
import { lastAnswer } from '../pulse.js';

const SIZE = 500;

/** The rows of a listing as far as they are known. */
class Listing {
  constructor(path, options, rowKey, redraw) {
    Object.assign(this, { path, options, rowKey, redraw });
    this.rows = [];
    this.total = 0;
    this.count = undefined;
    this.error = null;
    this.at = 0;
    this.changed = false;
    this.guarded = false;
    this.first = 0;
    this.last = 0;
    this.ended = new AbortController();
  }

  /** Say which rows are in view. */
  show(first, last) {
    [this.first, this.last] = [first, last];
    for (let index = first; index <= last && index < this.count; index += 1) {
      if (!this.rows[index]) return this.again?.();
    }
    return undefined;
  }

  async turn() {
    const from = Math.floor(this.first / SIZE);
    const to = Math.floor(Math.max(this.last, this.first) / SIZE);
    try {
      for (let page = from; page <= to; page += 1) await this.load(page + 1);
      this.error = null;
    } catch (error) {
      if (this.ended.signal.aborted) return;
      this.error = error;
    }
    this.redraw();
  }

  async load(page) {
    const found = await get(query(this.path, { ...this.options, page, page_size: SIZE }), this.ended.signal);
    const items = found.items ?? found;
    this.count = found.filtered_count ?? items.length;
    this.total = found.total_count ?? items.length;
    this.at = Date.now();
    lastAnswer.set(this.at);
    if (this.guarded) this.refresh((page - 1) * SIZE, items);
    else this.replace((page - 1) * SIZE, items);
  }

  replace(begin, items) {
    this.rows.length = Math.max(begin + items.length, Math.min(this.rows.length, this.count));
    items.forEach((item, index) => { this.rows[begin + index] = item; });
    this.changed = false;
  }

  /** New values for rows that stay where they are; rows that are gone keep their last ones. */
  refresh(begin, items) {
    const byKey = new Map(items.map((item) => [this.rowKey(item), item]));
    items.forEach((item, index) => {
      const old = this.rows[begin + index];
      if (old && this.rowKey(old) !== this.rowKey(item)) this.changed = true;
      this.rows[begin + index] = old ? (byKey.get(this.rowKey(old)) ?? old) : item;
    });
  }
}

/** A listing of the API, by its path and what is asked for: columns, sort, name. */
export function usePages(path, options, rowKey, every = 2) {
  const [, redraw] = useReducer((number) => number + 1, 0);
  const wanted = JSON.stringify(options);
  const listing = useMemo(() => new Listing(path, options, rowKey, redraw), [path, wanted]);
  useEffect(() => {
    const stop = repeated(() => listing.turn(), every);
    listing.again = () => askSoon(listing);
    return () => {
      listing.ended.abort();
      stop();
    };
  }, [listing]);
  return listing;
}

function askSoon(listing) {
  if (listing.asking) return;
  listing.asking = setTimeout(() => {
    listing.asking = 0;
    listing.turn();
  }, 50);
}
