/** What the browser remembers of a reader: theme, and whether single keys do something. */
import { store } from './store.js';

const THEMES = ['auto', 'light', 'dark'];

function remembered(name, otherwise) {
  return localStorage.getItem(`penstock.${name}`) ?? otherwise;
}

export const theme = store(remembered('theme', 'auto'));
export const keysOn = store(remembered('keys', 'on') === 'on');
const dark = matchMedia('(prefers-color-scheme: dark)');

export function isDark() {
  return theme.get() === 'auto' ? dark.matches : theme.get() === 'dark';
}

function wear() {
  document.documentElement.dataset.theme = isDark() ? 'dark' : 'light';
}

export function nextTheme() {
  theme.set(THEMES[(THEMES.indexOf(theme.get()) + 1) % THEMES.length]);
  localStorage.setItem('penstock.theme', theme.get());
}

export function setKeys(on) {
  keysOn.set(on);
  localStorage.setItem('penstock.keys', on ? 'on' : 'off');
}

wear();
theme.follow(wear);
dark.addEventListener('change', () => theme.set(theme.get()));
