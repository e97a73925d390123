#!/bin/sh
# Runs a shell line on an emulated host, as ssh would on a real one: [ssh's options] HOST WORD...
# The words are joined with blanks. Launchers are told to call this instead of ssh.
while true; do
  case "$1" in
    -*) shift ;;
    *) break ;;
  esac
done
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; exec $*"
