#!/bin/sh
# Installs a released jobgate: downloads the archive for this machine, checks its SHA-256 and copies the program.
# It asks for no other permission than to write the directory, and installs nothing that it could not check.
#
#   sh install.sh [--version 0.1.0] [--to DIR] [--from URL] [--sha256 HEX]
#
#   --version  the release; without it, the latest
#   --to       the directory of the program (default: ~/.local/bin)
#   --from     where the archive and SHA256SUMS are, e.g. a mirror or file:///srv/jobgate (default: the release)
#   --sha256   the checksum of the archive; without it, the one in SHA256SUMS beside the archive, which shows that
#              the download is whole, not who made it (docs/packages.md says how to check the signature)
set -eu

fail() {
  printf 'install.sh: %s\n' "$*" >&2
  exit 1
}

version='' to="${HOME:-}/.local/bin" from='' expected=''
while [ $# -gt 0 ]; do
  case "$1" in
    --version | --to | --from | --sha256)
      [ $# -ge 2 ] || fail "$1 needs a value"
      case "$1" in
        --version) version="$2" ;;
        --to) to="$2" ;;
        --from) from="${2%/}" ;;
        --sha256) expected="$2" ;;
      esac
      shift 2
      ;;
    -h | --help)
      sed -n '2,/^set -eu/{/^#/s/^# \{0,1\}//p;}' "$0"
      exit 0
      ;;
    *) fail "unknown argument $1 (see --help)" ;;
  esac
done

case "$(uname -s)" in
  Linux) system=unknown-linux-gnu ;;
  Darwin) system=apple-darwin ;;
  MINGW* | MSYS* | CYGWIN*) system=pc-windows-msvc ;;
  *) fail "no release for $(uname -s): build it with cargo (docs/packages.md)" ;;
esac
case "$(uname -m)" in
  x86_64 | amd64) machine=x86_64 ;;
  aarch64 | arm64) machine=aarch64 ;;
  *) fail "no release for $(uname -m): build it with cargo (docs/packages.md)" ;;
esac
target="$machine-$system"
archive="jobgate-$target.tar.gz"
program=jobgate
if [ "$system" = pc-windows-msvc ]; then program=jobgate.exe; fi

if [ -z "$from" ]; then
  releases=https://github.com/jobgate/jobgate/releases
  if [ -n "$version" ]; then from="$releases/download/v${version#v}"; else from="$releases/latest/download"; fi
fi
case "$from" in
  https://* | file://*) ;;
  # For tests and mirrors on this machine only.
  http://127.0.0.1:* | http://localhost:*) ;;
  *) fail "--from must be an https:// or file:// URL: $from" ;;
esac

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

fetch() {
  if command -v curl >/dev/null 2>&1; then
    curl -fsSL --retry 2 --proto '=https,file,http' --proto-redir '=https' -o "$work/$1" "$from/$1"
  elif [ "${from#file://}" != "$from" ]; then
    cp "${from#file://}/$1" "$work/$1"
  elif command -v wget >/dev/null 2>&1; then
    wget -q -O "$work/$1" "$from/$1"
  else
    fail "needs curl or wget"
  fi || fail "download $from/$1"
}

sum() {
  if command -v sha256sum >/dev/null 2>&1; then
    sha256sum "$1"
  elif command -v shasum >/dev/null 2>&1; then
    shasum -a 256 "$1"
  else
    fail "needs sha256sum or shasum: nothing is installed unchecked"
  fi
}

fetch "$archive"
if [ -z "$expected" ]; then
  fetch SHA256SUMS
  # The name is compared whole; `*` marks a file that was read as binary.
  expected="$(awk -v name="$archive" '$2 == name || $2 == "*" name { print $1 }' "$work/SHA256SUMS")"
  [ -n "$expected" ] || fail "SHA256SUMS has no checksum for $archive: nothing was installed"
fi
summed="$(sum "$work/$archive")"
actual="${summed%% *}"
# `sum` may have failed in its subshell, and a checksum may have been written in capitals.
expected="$(printf '%s' "$expected" | tr 'A-F' 'a-f')"
[ "${#actual}" = 64 ] || fail "cannot compute the SHA-256 of $archive: nothing was installed"
[ "$actual" = "$expected" ] || fail "$archive has the SHA-256 $actual, not $expected: nothing was installed"

tar -xzf "$work/$archive" -C "$work" "jobgate-$target/$program" || fail "unpack $archive"
mkdir -p "$to"
# Renamed into place, so that a program that runs is not written over.
cp "$work/jobgate-$target/$program" "$to/.$program.$$"
chmod 755 "$to/.$program.$$"
mv -f "$to/.$program.$$" "$to/$program"
printf 'installed %s\n' "$to/$program"
case ":${PATH:-}:" in
  *":$to:"*) ;;
  *) printf '%s is not in PATH\n' "$to" >&2 ;;
esac
