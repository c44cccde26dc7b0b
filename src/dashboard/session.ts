// The user's session, and the sign-in form for servers that require a token.

import { html, nothing } from "lit-html";
import type { Part } from "./parts/parts.ts";

export interface Session {
  /** Null if the server has no tokens. */
  readonly name: string | null;
  readonly roles: readonly string[];
  readonly permissions: readonly string[];
  /** Globs of the tubes that the user may see; null for all. */
  readonly tubes: readonly string[] | null;
}

/** Returns undefined if the user must sign in. Throws if the server doesn't answer. */
export async function askSession(): Promise<Session | undefined> {
  const response = await fetch("v1/session");
  if (response.status === 401) return undefined;
  if (!response.ok) throw new Error(`${response.status}`);
  return (await response.json()) as Session;
}

export async function signOut(): Promise<void> {
  await fetch("v1/session", { method: "DELETE" });
}

/** Returns undefined on success, else the error. */
async function signIn(token: string): Promise<string | undefined> {
  try {
    const response = await fetch("v1/session", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ token }),
    });
    if (response.ok) return undefined;
    return ((await response.json()) as { detail: string }).detail;
  } catch {
    return "The server does not answer.";
  }
}

/** `onWrong` receives an error; `wrong` is the last error to show. */
export function signInForm(wrong: string, onIn: () => void, onWrong: (wrong: string) => void): Part {
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const input = (event.target as HTMLFormElement).elements.namedItem("token") as HTMLInputElement;
    const fault = await signIn(input.value.trim());
    if (fault === undefined) onIn();
    else {
      onWrong(fault);
      input.select();
    }
  };
  return html`<form class="card narrow form" @submit=${submit}>
    <h1>Sign in</h1>
    <p class="quiet">This server asks who you are. A token is made by <code>runnerbean token add NAME --role ROLE</code>.</p>
    <label for="token">Token</label>
    <input id="token" name="token" type="password" autocomplete="current-password" required autofocus aria-describedby="wrong">
    <p class="buried" id="wrong" role="alert">${wrong === "" ? nothing : wrong}</p>
    <div><button class="button main" type="submit">Sign in</button></div>
  </form>`;
}

/** Explains why a signed-in user sees nothing, and links to what is permitted. */
export function refusal(detail: string, { tubes }: Session): Part {
  const exact = tubes?.filter((tube) => !/[*?]/.test(tube)) ?? [];
  const open = (event: SubmitEvent): void => {
    event.preventDefault();
    const input = (event.target as HTMLFormElement).elements.namedItem("tube") as HTMLInputElement;
    location.hash = `#/tubes/${encodeURIComponent(input.value)}`;
  };
  return html`<section class="card form">
    <h1>Not for you</h1>
    <p class="quiet">${detail}</p>
    ${
      tubes === null
        ? nothing
        : html`<p>Your tubes: ${tubes.map((tube) =>
            exact.includes(tube)
              ? html`<a href="#/tubes/${encodeURIComponent(tube)}">${tube}</a> `
              : html`<code>${tube}</code> `,
          )}</p>
            <form class="bar" @submit=${open}>
              <label class="grow"><span class="hidden">Name of a tube</span><input name="tube" placeholder="name of a tube" required></label>
              <button class="button" type="submit">Show it</button>
            </form>`
    }
  </section>`;
}
