/** A page with one long list: what is looked for and how it is sorted are in the page's address. */
import { api } from '../api.js';
import { useKey } from '../keys.js';
import { html, useEffect, useRef, useState } from '../lib.js';
import { choose, route } from '../route.js';
import { Grid } from './grid.js';
import { usePages } from './pages_of.js';

const TYPED_MS = 200;

/** `kind`: the name of the list in the API; `fields`: what is asked of each row; `sort`: the order at first. */
export function ListPage({ title, kind, columns, fields, rowKey, sort: first, actions, empty, every, bare }) {
  const { query } = route.use();
  const sort = query.sort ? { column: query.sort, reverse: query.reverse === 'yes' } : first;
  const path = query.vhost && !bare ? api(kind, query.vhost) : api(kind);
  const options = { name: query.name ?? '', sort: sort?.column, sort_reverse: sort?.reverse, columns: fields?.join(',') };
  const listing = usePages(path, options, rowKey, every);
  const onSort = (column) => {
    const isNumber = columns.find((each) => each.sort === column).right;
    const reverse = sort?.column === column ? !sort.reverse : isNumber;
    choose({ sort: column, reverse: reverse ? 'yes' : 'no' });
  };
  return html`<header class="page-head"><h1>${title}</h1><${Find} /><div class="actions">${actions}</div></header>
    <section class="panel is-list"><${Grid} ...${{ label: title, noun: kind.slice(0, -1), listing, columns, sort, onSort, empty }} /></section>`;
}

/** The field for what is looked for; `/` goes there. */
export function Find({ name = 'name', label = 'Find' }) {
  const chosen = route.use().query[name] ?? '';
  const [text, setText] = useState(chosen);
  const input = useRef();
  const timer = useRef(0);
  useKey('/', () => {
    input.current.focus();
    input.current.select();
  });
  useEffect(() => {
    if (document.activeElement !== input.current) setText(chosen);
  }, [chosen]);
  const typed = (event) => {
    const { value } = event.target;
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => choose({ [name]: value }), TYPED_MS);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  return html`<label class="find"><span class="unseen">${label}</span>
    <input ref=${input} type="search" placeholder=${`${label} …`} value=${text} onInput=${typed} /><kbd aria-hidden="true">/</kbd>
  </label>`;
}
