/** What is around every page: the bar, the menu, keys and messages. */
import { logOut, user } from './api.js';
import { plural, seconds } from './format.js';
import { useKey } from './keys.js';
import { html, useEffect, useRef, useState } from './lib.js';
import { follow, live } from './live.js';
import { shown } from './names.js';
import { Help } from './parts/help.js';
import { Logo } from './parts/logo.js';
import { Mark } from './parts/mark.js';
import { Skeleton, Trouble } from './parts/panel.js';
import { Toasts } from './parts/toast.js';
import { usePoll } from './poll.js';
import { nextTheme, theme } from './preferences.js';
import { lastAnswer } from './pulse.js';
import { choose, route, to } from './route.js';
import { icon } from './parts/icons.js';

const OLD_MS = 2500;
const TICK_MS = 500;
const PAGES = {
  overview: ['Overview', () => import('./pages/overview.js')],
  flow: ['Flow', () => import('./pages/flow.js')],
  queues: ['Queues', () => import('./pages/queues.js')],
  exchanges: ['Exchanges', () => import('./pages/exchanges.js')],
  connections: ['Connections', () => import('./pages/connections.js')],
  shards: ['Shards', () => import('./pages/shards.js')],
  incidents: ['Incidents', () => import('./pages/incidents.js')],
  policies: ['Policies', () => import('./pages/policies.js')],
  users: ['Users', () => import('./pages/users.js')],
  definitions: ['Definitions', () => import('./pages/definitions.js')],
  pipeline: ['Pipeline', () => import('./pages/pipeline.js')],
};
const HIDDEN = { queue: ['Queue', () => import('./pages/queue.js'), 'queues'] };
const FIRST = ['overview', 'flow', 'queues', 'connections'];

export function Shell() {
  const { page, parts } = route.use();
  const [help, setHelp] = useState(false);
  const [menu, setMenu] = useState(false);
  useEffect(follow, []);
  useEffect(() => setMenu(false), [page, parts.join('/')]);
  useKey('?', () => setHelp(true));
  return html`<a class="skip" href="#main" onClick=${skip}>Skip to the page</a>
    <${Bar} openHelp=${() => setHelp(true)} />
    <${Menu} page=${page} open=${menu} setOpen=${setMenu} />
    <main id="main" tabindex="-1"><${Page} page=${page} parts=${parts} /></main>
    <${Toasts} />
    ${help && html`<${Help} close=${() => setHelp(false)} />`}`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById('main').focus();
}

function Page({ page, parts }) {
  const [title, load] = PAGES[page] ?? HIDDEN[page] ?? PAGES.overview;
  const [loaded, setLoaded] = useState({});
  useEffect(() => {
    document.title = `${parts.length ? shown(parts.at(-1)) : title} – penstock`;
  }, [title, parts.join('/')]);
  useEffect(() => {
    let wanted = true;
    const report = (found) => wanted && setLoaded({ load, ...found });
    load().then((module) => report({ Shown: module.default }), (error) => report({ error }));
    return () => { wanted = false; };
  }, [load]);
  if (loaded.load !== load) return html`<${Skeleton} />`;
  if (loaded.error) return html`<${Trouble} error=${loaded.error} />`;
  return html`<${loaded.Shown} key=${`${page}/${parts.join('/')}`} parts=${parts} />`;
}

function Bar({ openHelp }) {
  const who = user.use();
  return html`<header class="bar">
    <a class="brand" href=${to(['overview'])} aria-label="penstock, overview"><${Logo} /><span>penstock</span></a>
    <${Vhosts} />
    <${Held} />
    <${Age} />
    <${ThemeButton} />
    <button type="button" class="plain icon no-phone" aria-label="Keys" title="Keys (?)" onClick=${openHelp}>${icon('keys')}</button>
    <span class="who no-phone" title=${[].concat(who.tags).join(', ')}>${shown(who.name)}</span>
    <button type="button" class="plain icon" aria-label="Log out" title="Log out" onClick=${logOut}>${icon('out')}</button>
  </header>`;
}

function Vhosts() {
  const { query } = route.use();
  const vhosts = usePoll('/api/vhosts', 30);
  const names = (vhosts.data ?? []).map((each) => each.name);
  if (query.vhost && !names.includes(query.vhost)) names.push(query.vhost);
  return html`<select class="vhosts" aria-label="Vhost" value=${query.vhost ?? ''} onChange=${(event) => choose({ vhost: event.target.value })}>
    <option value="">all vhosts</option>
    ${names.map((name) => html`<option key=${name} value=${name}>${shown(name)}</option>`)}
  </select>`;
}

/** How many are held, and by how many stops: the way to Flow from everywhere. */
function Held() {
  const { held, stops } = live.use();
  const state = stops?.length ? 'by-hand' : 'held';
  const words = [held?.length && `${held.length} held`, stops?.length && plural(stops.length, 'stop')].filter(Boolean);
  return html`<a class="pill ${words.length ? `is-${state} lit` : ''}" href=${to(['flow'])} aria-live="polite">
    <${Mark} state=${words.length ? state : 'flowing'} word=${false} />${words.join(', ') || 'all flow'}
  </a>`;
}

/** Whether the page is up to date. */
function Age() {
  const [now, setNow] = useState(Date.now());
  const last = useRef(0);
  last.current = lastAnswer.get();
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  const old = now - last.current;
  return old > OLD_MS
    ? html`<span class="age is-old" role="status">${seconds(old / 1000)} old</span>`
    : html`<span class="age" role="status">live</span>`;
}

function ThemeButton() {
  const chosen = theme.use();
  return html`<button type="button" class="plain icon no-phone" aria-label=${`Theme: ${chosen}`} title=${`Theme: ${chosen}`} onClick=${nextTheme}>
    ${icon(chosen)}</button>`;
}

function Menu({ page, open, setOpen }) {
  const chosen = HIDDEN[page]?.[2] ?? (PAGES[page] ? page : 'overview');
  return html`<nav class=${open ? 'menu is-open' : 'menu'} aria-label="Pages">
    ${Object.entries(PAGES).map(
      ([name, [title]]) => html`<a key=${name} class=${FIRST.includes(name) ? '' : 'later'} href=${to([name])}
        aria-current=${name === chosen ? 'page' : undefined}>${icon(name)}<span>${title}</span></a>`,
    )}
    <button type="button" class="more plain" aria-expanded=${open} onClick=${() => setOpen(!open)}>${icon('more')}<span>More</span></button>
  </nav>`;
}
