#!/bin/bash
# Put Slurm's programs where its daemons look for them: slurm.sh FOLDER_OF_DEBS SCRATCH_FOLDER
#
# They are Debian's, without what its packages do when they are installed. A file that is there stays.
set -eu
for deb in "$1"/*.deb; do dpkg -x "$deb" "$2"; done
for name in slurmctld slurmd slurmstepd; do ln -sf "$name-wlm" "$2/usr/sbin/$name"; done
mkdir -p "$2/usr/lib/x86_64-linux-gnu"
[ ! -d "$2/lib/x86_64-linux-gnu" ] || cp -an "$2/lib/x86_64-linux-gnu/." "$2/usr/lib/x86_64-linux-gnu/"
for part in sbin bin lib/x86_64-linux-gnu; do
  cp -an "$2/usr/$part/." "/usr/$part/" || true # newer ones fail where a file is there
done
ldconfig
for name in slurmctld slurmd slurmstepd munged; do ldd "/usr/sbin/$name"; done | grep "not found" && exit 1
slurmd -V
