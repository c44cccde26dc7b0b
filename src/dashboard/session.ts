// The user's session, and the sign-in form for servers that require a token.

import { html, nothing } from "lit-html";
import type { Part } from "./parts/parts.ts";
import { answerOf, detailOf, send } from "./parts/request.ts";

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
  const { status, content } = await answerOf("v1/session");
  if (status === 401) return undefined;
  if (status !== 200) throw new Error(detailOf(content, status));
  return content as Session;
}

export const signOut = (): Promise<unknown> => send("DELETE", "v1/session");

/** Returns undefined on success, else the error. */
async function signIn(token: string): Promise<string | undefined> {
  try {
    await send("POST", "v1/session", { token });
    return undefined;
  } catch (error) {
    return (error as Error).message;
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
    <p class="quiet">This server requires a token. Create one with <code>runnerbean token add NAME <span class="one-line">--role ROLE</span></code>.</p>
    <label for="token">Token</label>
    <input id="token" name="token" type="password" autocomplete="current-password" required autofocus aria-describedby="wrong">
    <p class="buried" id="wrong" role="alert">${wrong === "" ? nothing : wrong}</p>
    <div><button class="button main" type="submit">Sign in</button></div>
  </form>`;
}

/** Explains why a signed-in user sees nothing, and links to permitted pages. */
export function refusal(detail: string, { tubes }: Session): Part {
  const exact = tubes?.filter((tube) => !/[*?]/.test(tube)) ?? [];
  const open = (event: SubmitEvent): void => {
    event.preventDefault();
    const input = (event.target as HTMLFormElement).elements.namedItem("tube") as HTMLInputElement;
    location.hash = `#/tubes/${encodeURIComponent(input.value)}`;
  };
  return html`<section class="card form">
    <h1>No access</h1>
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
