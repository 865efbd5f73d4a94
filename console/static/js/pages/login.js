/** Who are you? */
import { logIn } from '../api.js';
import { html, useState } from '../lib.js';
import { Logo } from '../parts/logo.js';

export function Login() {
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    setBusy(true);
    setError('');
    try {
      await logIn(given.get('username'), given.get('password'));
    } catch (problem) {
      setError(problem.status === 401 ? 'This name and password are not accepted.' : `${problem.message}.`);
      setBusy(false);
    }
  };
  return html`<main class="login">
    <form class="login-card" onSubmit=${submit}>
      <h1><${Logo} />penstock</h1>
      <p class="muted">An AMQP broker that holds producers back, and tells why.</p>
      <label class="field"><span class="field-label">User</span>
        <input name="username" autocomplete="username" autocapitalize="none" spellcheck="false" required autofocus /></label>
      <label class="field"><span class="field-label">Password</span>
        <input name="password" type="password" autocomplete="current-password" required /></label>
      <p class="login-error" role="alert">${error}</p>
      <button class="primary" disabled=${busy}>${busy ? 'Logging in …' : 'Log in'}</button>
    </form>
  </main>`;
}
