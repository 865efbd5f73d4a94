/** The console: a login, then the pages. */
import { recognize, user } from './api.js';
import { html, render, useEffect, useState } from './lib.js';
import { Login } from './pages/login.js';
import { Shell } from './shell.js';

const RETRY_MS = 2000;

function Console() {
  const who = user.use();
  const [problem, setProblem] = useState('');
  useEffect(() => {
    let timer = 0;
    const ask = () => recognize().catch((error) => {
      setProblem(`${error.message}, trying again …`);
      timer = setTimeout(ask, RETRY_MS);
    });
    ask();
    return () => clearTimeout(timer);
  }, []);
  if (who === undefined) return html`<main class="login"><p role="status">${problem}</p></main>`;
  return who ? html`<${Shell} />` : html`<${Login} />`;
}

render(html`<${Console} />`, document.getElementById('app'));
