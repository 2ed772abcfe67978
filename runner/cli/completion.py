"""`rai completion bash|zsh|fish`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from runner.cli.suggestions import FILES, FOLDERS, SHELLS, WORD
from runner.terminal.streams import write_line

# Bash cuts words at `:` and `=`, which stand in the names of images and in options.
BASH = f"""\
_rai() {{
    local line=${{COMP_LINE:0:COMP_POINT}} words found cut=
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    local last=${{words[${{#words[@]}}-1]}}
    [[ $last == *[:=]* ]] && cut=${{last%"${{last##*[:=]}}"}}
    COMPREPLY=()
    while IFS= read -r found; do
        case $found in
            {FILES}) compopt -o default ;;
            {FOLDERS}) compopt -o dirnames ;;
            *) COMPREPLY+=("${{found#"$cut"}}") ;;
        esac
    done < <("$1" {WORD} "${{words[@]:1}}" 2>/dev/null)
}}
complete -F _rai rai
"""
ZSH = f"""\
#compdef rai
_rai() {{
    local found
    local -a names
    for found in "${{(@f)$($words[1] {WORD} "${{(@Q)words[2,CURRENT-1]}}" "$PREFIX" \\
            2>/dev/null)}}"; do
        case $found in
            {FILES}) _files ;;
            {FOLDERS}) _files -/ ;;
            ?*) names+=("$found") ;;
        esac
    done
    (( $#names )) && compadd -a names
}}
if [[ $funcstack[1] == _rai ]]; then _rai "$@"; else compdef _rai rai; fi
"""
FISH = f"""\
function __rai_complete
    set -l words (commandline -opc)
    for found in ($words[1] {WORD} $words[2..] (commandline -ct) 2>/dev/null)
        switch $found
            case {FILES}
                __fish_complete_path (commandline -ct)
            case {FOLDERS}
                __fish_complete_directories (commandline -ct)
            case '*'
                echo $found
        end
    end
end
complete -c rai -f -a '(__rai_complete)'
"""
SCRIPTS = dict(zip(SHELLS, (BASH, ZSH, FISH), strict=True))


def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print the script by which a shell completes rai's commands, options and runs.

    bash: rai completion bash > ~/.local/share/bash-completion/completions/rai
    """
    from runner.core import Problem
    from runner.core.errors import UsageError

    if shell not in SCRIPTS:
        hint = f"there is one for {', '.join(SHELLS[:-1])} and {SHELLS[-1]}"
        raise UsageError(Problem(f"no completion for the shell {shell!r}", hint=hint))
    write_line(SCRIPTS[shell].removesuffix("\n"), sys.stdout)
