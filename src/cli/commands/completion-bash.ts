// Completion script for bash.

import { commandCases, optionCases } from "./completion-cases.ts";
import { type Known, quoted } from "./completion-tree.ts";

export function bashCompletion(known: readonly Known[]): string {
  return `_runnerbean() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" path="" word words="" tubes=""
  local known=${quoted(` ${known.map(({ path }) => path.replaceAll(" ", "/")).join(" ")} `)}
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    local next="\${path:+$path/}$word"
    [[ $known == *" $next "* ]] && path="$next"
  done
  path="\${path//\\// }"
  case "$path $before" in
${optionCases(known)}
    *) case "$path" in
${commandCases(known)}
    esac ;;
  esac
  COMPREPLY=()
  for word in $words; do
    [[ $word == "$current"* ]] && COMPREPLY+=("$word")
  done
  [[ -z $tubes || $current == -* ]] && return
  while IFS= read -r word; do
    [[ $word == "$current"* ]] && COMPREPLY+=("$(printf %q "$word")")
  done < <(runnerbean tubes --names 2>/dev/null)
}
complete -o default -F _runnerbean runnerbean`;
}
