# Completion for rlminit in bash. It needs nothing but bash 4 and rlminit itself.
_rlminit() {
	local line=${COMP_LINE:0:COMP_POINT} word prefix answer directive=0
	local -a words answers
	COMPREPLY=()
	read -ra words <<<"$line"
	[[ $line == *[[:space:]] ]] && words+=("")
	word=${words[-1]}
	while IFS= read -r answer; do answers+=("${answer%%$'\t'*}"); done \
		< <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
	((${#answers[@]} > 0)) || return
	directive=${answers[-1]#:}
	unset 'answers[-1]'
	((directive & 1)) && return
	# bash completes only what follows the last = or : of a word.
	prefix=
	if [[ $COMP_WORDBREAKS == *=* && $word == *=* ]]; then prefix=${word%"${word##*=}"}; fi
	if [[ $COMP_WORDBREAKS == *:* && ${word#"$prefix"} == *:* ]]; then prefix=${word%"${word##*:}"}; fi
	for answer in "${answers[@]}"; do
		[[ $answer == "$word"* ]] && COMPREPLY+=("${answer#"$prefix"}")
	done
	((directive & 2)) && compopt -o nospace 2>/dev/null
	if ((${#COMPREPLY[@]} == 0 && (directive & 4) == 0)); then
		compopt -o filenames 2>/dev/null
		while IFS= read -r answer; do COMPREPLY+=("$answer"); done < <(compgen -f -- "${word#"$prefix"}")
	fi
}
complete -F _rlminit rlminit
