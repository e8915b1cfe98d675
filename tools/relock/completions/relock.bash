# Completion of relock(1) for bash.
_relock()
{
    local commands='run status list waiters watch break top bench doctor acl help'
    local common='--url --password-file --verbose --help'
    local known='reentrant spin fenced fair read-write plain announced-plain semaphore unleased latch python-redis-lock simple-redis-mutex spring-integration'
    local kinds='--fair --fenced --read --write --plain --like --permits --set-permits'
    local libraries='bsm-redislock django-redis node-redlock pottery python-redis-lock redis-lock redis-py redis-semaphore redlock-py redlock-universal redsync rslock rueidislock sesamecare-redlock shedlock simple-redis-mutex spring-integration:'
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words=

    COMPREPLY=()
    case $previous in
    --password-file) mapfile -t COMPREPLY < <(compgen -f -- "$current") && return ;;
    --like) mapfile -t COMPREPLY < <(compgen -W "$libraries" -- "$current") && return ;;
    --kind)
        [[ ${COMP_WORDS[1]} == doctor ]] || known='plain semaphore unleased latch'
        mapfile -t COMPREPLY < <(compgen -W "$known" -- "$current") && return
        ;;
    --on-lost) mapfile -t COMPREPLY < <(compgen -W 'term kill warn' -- "$current") && return ;;
    esac
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$commands --help --version" -- "$current")
        return
    fi
    case ${COMP_WORDS[1]} in
    run)
        words="$common $kinds --wait --nonblock --quiet --command --lease --on-lost --kill-after --once-per --conflict-exit-code"
        if [[ " ${COMP_WORDS[*]:2:COMP_CWORD-2} " == *' -- '* ]]; then # the command and its own
            mapfile -t COMPREPLY < <(compgen -c -f -- "$current")
            return
        fi
        ;;
    status) words="$common --json --kind" ;;
    list) words="$common --json" ;;
    waiters) words="$common --json --nested" ;;
    watch) words="$common --json --interval --kind" ;;
    break) words="$common --yes --permit --kind --permits" ;;
    top) words="$common --json --interval --once" ;;
    bench) words="$common --json --threads --duration --shared" ;;
    help) ((COMP_CWORD > 2)) || mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current") ;;
    doctor) words="$common --json --name --kind" ;;
    acl)
        words="$common --prefix --operator --user --shell"
        mapfile -t COMPREPLY < <(compgen -W "$known" -- "$current")
        ;;
    esac
    [[ $current != -* ]] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _relock relock
