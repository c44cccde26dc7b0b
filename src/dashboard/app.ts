// The dashboard's application: the frame around all pages, the routing by the address, and the
// keyboard shortcuts.

import { html, nothing, render } from "lit-html";
import { type Answers, Fetched, Live, RETRY_MS } from "./live.ts";
import { BAR, findBox, GROUP_PAGE, loading, pageOf, placeOf } from "./pages/pages.ts";
import { ALL_TUBES, type Part, setNow } from "./parts/elements.ts";
import type { Chart, Page, PageContext, Place } from "./parts/page-context.ts";
import { answerOf, detailOf, send } from "./parts/request.ts";
import type { Health, Refused } from "./parts/view-types.ts";

// The user's session, and the sign-in form for servers that require a token.

interface Session {
  /** Null if the server has no tokens. */
  readonly name: string | null;
  readonly roles: readonly string[];
  readonly permissions: readonly string[];
  /** Globs of the tubes that the user may see; null for all. */
  readonly tubes: readonly string[] | null;
}

/** Returns undefined if the user must sign in. Throws if the server doesn't answer. */
async function askSession(): Promise<Session | undefined> {
  const { status, content } = await answerOf("v1/session");
  if (status === 401) return undefined;
  if (status !== 200) throw new Error(detailOf(content, status));
  return content as Session;
}

const signOut = (): Promise<unknown> => send("DELETE", "v1/session");

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
function signInForm(wrong: string, onIn: () => void, onWrong: (wrong: string) => void): Part {
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
function refusal(detail: string, { tubes }: Session): Part {
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

/** Pause in typing after which a filter takes effect. */
const TYPED_MS = 250;
/** Minimum interval of screen reader announcements about changes that the user didn't ask for. */
/** Watched by every page. */
const HEALTH = "v1/health";
const SAID_EACH_MS = 10_000;
const THEME_KEY = "runnerbean.theme";
/** "off" disables the shortcuts (keys.ts). */
const KEYS_KEY = "runnerbean.keys";

class App {
  #place: Place = placeOf(location.hash);
  /** The health, and what the page watches by its names; undefined until all is there. */
  #view: Readonly<Record<string, unknown>> | undefined;
  /** Paths that the page watches. */
  #paths: Readonly<Record<string, string>> = {};
  #shown = "";
  /** Paths of the last received view; differs from `#shown` while the next view is awaited. */
  #cameFor = "";
  #typedTimer = 0;
  /** Typed changes that have not taken effect yet. */
  #typed: (() => Readonly<Record<string, string>>) | undefined;
  #health: Health | undefined;
  readonly #live = new Live(
    (answers, at) => this.#came(answers, at),
    () => this.#render(),
    (status, detail) => this.#refused(status, detail),
  );
  readonly #fetched = new Fetched(
    () => this.#live.isFrozen,
    () => this.#render(),
    leave,
  );
  /** Null if the user must sign in; undefined until known. */
  #session: Session | null | undefined;
  #wrongToken = "";
  /** Why the session is unknown. */
  #fault = "";
  /** Reason why the view may not be seen. */
  #refusal = "";
  /** The reason is the link, and not the user. */
  #isMisled = false;
  #hash = "";
  /** Query of the charts that were drawn last. */
  #drawn = "";
  readonly #selected = new Set<string>();
  #leading = false;
  #said = "";
  #saidAtMs = 0;

  begin(): void {
    setTheme(localStorage.getItem(THEME_KEY) ?? "");
    window.addEventListener("hashchange", () => this.#move());
    window.addEventListener("runnerbean-changed", () => {
      this.#selected.clear();
      this.#refetch();
      this.#render();
    });
    document.addEventListener("keydown", (event) => this.#key(event));
    // A button or link takes earlier input into account, even within the pause, whether it is
    // pressed by pointer or by key. In the capture phase, so that it runs before the button's own
    // listener; not at pointerdown, which might move the button from under the pointer.
    document.addEventListener("click", () => this.#typed !== undefined && this.#go({}), true);
    void this.#enter();
  }

  /** Fetches the session first, so that no later request is refused. */
  async #enter(): Promise<void> {
    this.#render();
    try {
      this.#session = (await askSession()) ?? null;
      this.#wrongToken = "";
      this.#fault = "";
      this.#move();
      document.querySelector<HTMLInputElement>("#token")?.focus();
    } catch (error) {
      this.#fault = (error as Error).message;
      this.#render();
      setTimeout(() => void this.#enter(), RETRY_MS);
    }
  }

  #refused(status: number, detail: string): void {
    if (status === 401) leave();
    else {
      this.#view = undefined;
      this.#refusal = detail;
      this.#isMisled = status !== 403;
      this.#render();
    }
  }

  /** Whether the server accepts commands: not while it starts, follows another server, or stops. */
  get #serves(): boolean {
    return this.#health?.checks.ready.ok === true;
  }

  /** Reason why the page may not be seen. If it watches nothing, that is why its list may not. */
  get #refusedBecause(): string {
    const { status, detail = "" } = (this.#fetched.content ?? {}) as Partial<Refused>;
    return this.#refusal || (this.#shown === "" && status === 403 ? detail : "");
  }

  get #page(): Page {
    return pageOf(this.#place);
  }

  readonly #may = (what: string): boolean => {
    const { permissions = [], tubes = [] } = this.#session ?? {};
    return what === ALL_TUBES ? tubes === null : permissions.includes(what);
  };

  #move(): void {
    clearTimeout(this.#typedTimer);
    this.#typed = undefined;
    // The selection belongs to the shown rows.
    if (location.hash !== this.#hash) this.#selected.clear();
    this.#hash = location.hash;
    const { page, name } = this.#place;
    this.#place = placeOf(location.hash);
    // The old rows stay until those of another filter arrive.
    if (page !== this.#place.page || name !== this.#place.name) this.#view = undefined;
    this.#refusal = "";
    this.#isMisled = false;
    if (!this.#session) {
      this.#render();
      return;
    }
    document.title = `${this.#page.title(this.#place)} – runnerbean`;
    this.#paths = this.#page.view(this.#place, this.#may);
    const paths = Object.values(this.#paths);
    this.#shown = paths.join();
    this.#live.look([HEALTH, ...paths]);
    this.#refetch();
    this.#render();
  }

  #came(answers: Answers, at: string): void {
    // A user who has just set a filter hears its result at once.
    if (this.#cameFor !== this.#shown) this.#saidAtMs = 0;
    this.#cameFor = this.#shown;
    this.#health = answers.get(HEALTH) as Health;
    const watched = Object.entries(this.#paths).map(([name, path]) => [name, answers.get(path)] as const);
    const isWhole = watched.every(([, content]) => content !== undefined);
    this.#view = isWhole ? { health: this.#health, ...Object.fromEntries(watched) } : undefined;
    setNow(at);
    this.#render();
  }

  /** Fetches the data that the page needs besides its view. */
  #refetch(): void {
    const url = this.#page.fetch?.(this.#place, this.#may);
    this.#fetched.look(url, this.#page.isLast);
  }

  #render(): void {
    const session = this.#session;
    if (session) {
      this.#renderPage(session);
      return;
    }
    const form = signInForm(
      this.#wrongToken,
      () => void this.#enter(),
      (wrong) => {
        this.#wrongToken = wrong;
        this.#render();
      },
    );
    const unknown =
      this.#fault === "" ? nothing : html`<p class="notice" role="alert">${this.#fault} ${NEXT_TRY}</p>`;
    render(
      html`<div class="frame alone">${this.#top()}<main id="main">${session === null ? form : unknown}</main></div>`,
      document.body,
    );
  }

  #renderPage(session: Session): void {
    const live = this.#live;
    const view = this.#view;
    const refused = this.#refusedBecause;
    const context: PageContext = {
      place: this.#place,
      may: this.#may,
      act: (open) => void this.#act(open),
      redraw: () => this.#render(),
      go: (change) => this.#go(change),
      goSoon: (change) => {
        clearTimeout(this.#typedTimer);
        // The user may move on to the next field before the first one takes effect.
        const before = this.#typed;
        this.#typed = () => ({ ...before?.(), ...change() });
        this.#typedTimer = window.setTimeout(() => this.#go({}), TYPED_MS);
      },
      charts: (charts) => this.#drawCharts(charts),
      selected: this.#selected,
      select: (keys, isSelected) => this.#select(keys, isSelected),
      viewFrom: this.#cameFor,
      fetched: this.#fetched.content,
      fetchedFrom: this.#fetched.from,
    };
    const page =
      refused !== ""
        ? this.#isMisled
          ? wrongLink(refused)
          : refusal(refused, session)
        : this.#health !== undefined && !this.#serves && this.#page.isOfServer !== true
          ? noJobs(this.#health)
          : view === undefined
            ? noView(live)
            : this.#page.show(view as never, context);
    const fault = this.#fetched.fault || (this.#serves ? live.fault : "");
    render(
      html`<div class="frame">
        ${this.#top()}
        <nav class="nav" aria-label="Pages">
          <ul>
            ${this.#bar().map(
              ({ page: name, label, key }) => html`<li>
                <a href="#/${name}" aria-current=${this.#isAt(name) ? "page" : nothing} title="g ${key}">${label}</a>
              </li>`,
            )}
          </ul>
        </nav>
        ${oldView(live)}
        <main class=${live.isOld && view !== undefined ? "stale" : ""} id="main" tabindex="-1">
          ${live.lostSinceMs === 0 && fault !== "" ? oldList(fault) : nothing}${page}
        </main>
        <p class="hidden" id="said" aria-live="polite">${this.#sayNow()}</p>
      </div>`,
      document.body,
    );
  }

  /** Returns the announcement: at once for a new query, otherwise at the minimum interval. */
  #sayNow(): string {
    const view = this.#serves ? this.#view : undefined;
    const words = view === undefined ? "" : (this.#page.says?.(view as never) ?? "");
    const now = Date.now();
    const isDue = words === "" || this.#said === "" || now - this.#saidAtMs >= SAID_EACH_MS;
    if (words !== this.#said && isDue) {
      this.#said = words;
      this.#saidAtMs = now;
    }
    return this.#said;
  }

  /** Returns the links of the navigation that exist on this server and that the user may open. */
  #bar(): typeof BAR {
    return BAR.filter(
      ({ page, may }) =>
        (page !== GROUP_PAGE || this.#health?.inGroup === true) && (may === undefined || this.#may(may)),
    );
  }

  #isAt(name: string): boolean {
    return this.#place.page === name || (name === "tubes" && this.#place.page === "jobs");
  }

  #top(): Part {
    const health = this.#health;
    const [tone, said] = this.#state();
    return html`<header class="top">
      <a class="brand" href="#/">${MARK}runnerbean <span>${health?.version ?? ""} ${health === undefined ? "" : `· ${health.hostname}`}</span></a>
      <span class="state" role="status"><span class="dot ${tone}" aria-hidden="true"></span>${said}</span>
      ${this.#session ? findBox(this.#place) : nothing} ${this.#who()}
      <button class="button" type="button" @click=${showKeys} aria-label="Keys">?</button>
      <button class="button" type="button" @click=${nextTheme} aria-label="Theme: light, dark, or as in the system">◐</button>
    </header>`;
  }

  #state(): [tone: string, said: string] {
    const { lostSinceMs, unsent, isFrozen } = this.#live;
    const puts = this.#health?.checks.puts;
    if (lostSinceMs > 0) return ["bad", "disconnected"];
    if (this.#session === null) return ["warn", "signed out"];
    if (this.#refusedBecause !== "") return ["warn", this.#isMisled ? "wrong link" : "not permitted"];
    if (unsent !== "") return ["bad", "too much to show"];
    if (puts === undefined) return ["warn", "connecting"];
    if (isFrozen) return ["warn", "frozen"];
    return puts.ok ? ["", "ready"] : ["warn", puts.detail];
  }

  /** Shows the user, if the server has tokens. */
  #who(): Part {
    const session = this.#session;
    if (!session || session.name === null) return nothing;
    const out = async (): Promise<void> => {
      try {
        await signOut();
        leave();
      } catch (error) {
        (await import("./parts/dialog.ts")).say((error as Error).message, true);
      }
    };
    return html`<span class="who" title="May: ${session.permissions.join(", ")}">${session.name} <span>${session.roles.join(", ")}</span></span>
      <button class="button" type="button" @click=${out}>Sign out</button>`;
  }

  #select(keys: readonly string[], isSelected: boolean): void {
    for (const key of keys) {
      if (isSelected) this.#selected.add(key);
      else this.#selected.delete(key);
    }
    this.#render();
  }

  async #act(open: (actions: typeof import("./parts/actions.ts")) => void): Promise<void> {
    try {
      open(await import("./parts/actions.ts"));
    } catch {
      // The page shows that the connection is lost.
    }
  }

  #go(change: Readonly<Record<string, string>>): void {
    // The user has left: the address changes before the event that says so.
    if (location.hash !== this.#hash) return;
    const query = new URLSearchParams(this.#place.query);
    for (const [key, value] of Object.entries({ ...this.#typed?.(), ...change })) {
      if (value === "") query.delete(key);
      else query.set(key, value);
    }
    const { page, name } = this.#place;
    const path = name === "" ? page : `${page}/${encodeURIComponent(name)}`;
    const search = `${query}`;
    history.replaceState(null, "", `#/${path}${search === "" ? "" : `?${search}`}`);
    this.#move();
  }

  /**
   * Draws charts after the render, because they live outside of the templates and need their
   * elements.
   */
  #drawCharts(charts: readonly Chart[]): typeof nothing {
    queueMicrotask(() => {
      if (this.#live.isFrozen && this.#drawn === this.#shown) return;
      this.#drawn = this.#shown;
      import("./parts/charts.ts").then(({ drawCharts }) => drawCharts(charts), nothingToDo);
    });
    return nothing;
  }

  #key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (document.querySelector("dialog[open]") !== null) return;
    if (event.ctrlKey || event.metaKey || event.altKey || isTypedInto(target)) return;
    if (localStorage.getItem(KEYS_KEY) === "off") return;
    if (this.#leading) {
      this.#leading = false;
      const bar = BAR.find(({ key }) => key === event.key);
      if (bar !== undefined) location.hash = `#/${bar.page}`;
      return;
    }
    if (event.key === "g") this.#leading = true;
    else this.#shortcuts[event.key]?.(event);
  }

  readonly #shortcuts: Readonly<Record<string, (event: KeyboardEvent) => void>> = {
    "/": (event) => {
      const ofPage = document.querySelector<HTMLInputElement>('main input[type="search"]');
      focusField(event, ofPage ?? document.querySelector<HTMLInputElement>("#find"));
    },
    f: (event) => focusField(event, document.querySelector<HTMLInputElement>("#find")),
    ".": () => this.#live.freeze(!this.#live.isFrozen),
    "?": () => void showKeys(),
    d: () => nextTheme(),
    j: () => moveToRow(1),
    k: () => moveToRow(-1),
    x: () => document.activeElement?.closest("tr")?.querySelector<HTMLInputElement>("input")?.click(),
    // The button opens a dialog, which asks for confirmation.
    p: () => document.querySelector<HTMLButtonElement>("#pause")?.click(),
  };
}

function focusField(event: KeyboardEvent, field: HTMLInputElement | null): void {
  if (field === null) return;
  event.preventDefault();
  field.focus();
  field.select();
}

/** A field of a dialog that has just been closed may still have the focus. */
const isTypedInto = (target: HTMLElement): boolean =>
  target.matches('textarea, select, input:not([type="checkbox"])') &&
  target.closest("dialog:not([open])") === null;

/** Focuses the link of the next or previous row, or its button. */
function moveToRow(by: 1 | -1): void {
  const links = [...document.querySelectorAll<HTMLElement>("main tbody tr")].flatMap((row) => {
    const link = row.querySelector<HTMLElement>("a") ?? row.querySelector<HTMLElement>("button");
    return link === null ? [] : [link];
  });
  const row = document.activeElement?.closest("tr");
  const now = links.findIndex((link) => row?.contains(link));
  links[
    now < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, now + by))
  ]?.focus();
}

const MARK = html`<svg viewBox="0 0 16 16" aria-hidden="true"><path d="M4 14C1 9 5 7 6 4c1-2 4-3 6-1s1 5-1 7-4 5-7 4z"/></svg>`;

const NEXT_TRY = `The next attempt is within ${RETRY_MS / 1000} s.`;

const lost = (sinceMs: number): Part => html`<p class="lost" role="alert">
  The server has not answered since ${new Date(sinceMs).toLocaleTimeString("sv")}: the page shows the state at that time. ${NEXT_TRY}
</p>`;

/** Says why the page shows an old view, or none. */
function oldView({ lostSinceMs, unsent }: Live): Part {
  if (lostSinceMs > 0) return lost(lostSinceMs);
  return unsent === "" ? nothing : html`<p class="lost" role="alert">${unsent}</p>`;
}

const noView = ({ unsent }: Live): Part =>
  unsent === "" ? loading : html`<div class="title"><h1>Too much to show</h1></div>`;

/** The server knows no such thing. Its detail says why. */
const wrongLink = (detail: string): Part => html`<div class="title"><h1>Nothing to show</h1></div>
  <section class="card">
    <p>${detail}</p>
    <p>The link may be mistyped or cut off. <a href="#/">Go to the overview</a>.</p>
  </section>`;

const oldList = (fault: string): Part =>
  html`<p class="notice" role="status">The list on this page can't be refreshed: ${fault} The page keeps trying.</p>`;

/** Replaces a page that would look as if there were no jobs. */
const noJobs = ({
  checks: { ready },
  inGroup,
}: Health): Part => html`<div class="title"><h1>No jobs to show</h1></div>
  <section class="card">
    <p>This server serves no jobs now: ${ready.detail}.</p>
    ${inGroup ? html`<p><a href="#/group">State of its group</a></p>` : nothing}
  </section>`;

/**
 * Starts over after the end of the session. Nothing of it stays in the page: no view, no dialog and
 * no cached answer.
 */
const leave = (): void => location.reload();

/** The page shows that the connection is lost. */
const nothingToDo = (): void => {};

async function showKeys(): Promise<void> {
  try {
    (await import("./keys.ts")).showKeys();
  } catch {
    // The page shows that the connection is lost.
  }
}

function setTheme(theme: string): void {
  if (theme === "") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme;
}

function nextTheme(): void {
  const themes = ["", "dark", "light"];
  const now = document.documentElement.dataset["theme"] ?? "";
  const next = themes[(themes.indexOf(now) + 1) % themes.length]!;
  localStorage.setItem(THEME_KEY, next);
  setTheme(next);
}

new App().begin();
