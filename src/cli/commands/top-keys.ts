// Keys of `top`: s sorts by the next column, S by the previous one, / filters by name, q quits.

const ESCAPE = "\u001b";
export const CTRL_C = "\u0003";
const BACKSPACES = ["\u007f", "\b"];
/** Also matches other keys that send several characters. */
const ARROW = new RegExp(`${ESCAPE}[[O][0-9;]*[A-Za-z~]`, "g");
const ENTERS = ["\r", "\n"];

export class TopKeys {
  sort: string;
  /** A glob or a part of a name; empty for all tubes. */
  filter: string;
  /** True while the user types the filter. */
  isTyping = false;
  isOver = false;
  readonly #columns: readonly string[];

  constructor(columns: readonly string[], sort: string, filter: string) {
    this.#columns = columns;
    this.sort = sort;
    this.filter = filter;
  }

  /** Returns the filter as a glob. */
  get glob(): string {
    return /[*?]/.test(this.filter) ? this.filter : `*${this.filter}*`;
  }

  /** Handles terminal input: one key or several at once. Arrow keys and the like do nothing. */
  press(keys: string): void {
    for (const key of keys.replaceAll(ARROW, "")) {
      if (key === CTRL_C) this.isOver = true;
      else if (this.isTyping) this.#type(key);
      else this.#command(key);
    }
  }

  #command(key: string): void {
    if (key === "q" || key === ESCAPE) this.isOver = true;
    else if (key === "/") this.#begin();
    else if (key === "s") this.#sortBy(1);
    else if (key === "S") this.#sortBy(-1);
  }

  #begin(): void {
    this.filter = "";
    this.isTyping = true;
  }

  #type(key: string): void {
    if (ENTERS.includes(key)) this.isTyping = false;
    else if (key === ESCAPE) {
      this.filter = "";
      this.isTyping = false;
    } else if (BACKSPACES.includes(key)) this.filter = this.filter.slice(0, -1);
    else if (/^[!-~]$/.test(key)) this.filter += key;
  }

  #sortBy(step: number): void {
    const { length } = this.#columns;
    this.sort = this.#columns[(this.#columns.indexOf(this.sort) + step + length) % length]!;
  }
}
