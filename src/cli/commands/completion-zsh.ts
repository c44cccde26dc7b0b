// Completion script for zsh. It uses compadd, which quotes inserted text, and avoids the names
// `path` and `words`, which are special in zsh.

import { commandCases, optionCases } from "./completion-cases.ts";
import { type Known, quoted } from "./completion-tree.ts";

export function zshCompletion(known: readonly Known[]): string {
  const inZsh = (cases: string): string => cases.replaceAll(") words=", ") candidates=");
  return `#compdef runnerbean
_runnerbean() {
  local command="" word next candidates="" tubes="" before="$words[CURRENT-1]"
  local known=${quoted(` ${known.map(({ path }) => path.replaceAll(" ", "/")).join(" ")} `)}
  for word in "\${(@)words[2,CURRENT-1]}"; do
    next="\${command:+$command/}$word"
    [[ $known == *" $next "* ]] && command="$next"
  done
  command="\${command//\\// }"
  case "$command $before" in
${inZsh(optionCases(known))}
    *) case "$command" in
${inZsh(commandCases(known))}
    esac ;;
  esac
  compadd -- \${=candidates}
  [[ -n $tubes && $words[CURRENT] != -* ]] && compadd -- "\${(@f)$(runnerbean tubes --names 2>/dev/null)}"
  ((compstate[nmatches])) || _files
}
compdef _runnerbean runnerbean`;
}
