#!/usr/bin/env bash
# Makes the images that deploy/ builds upon, for hosts whose Docker engine reaches no image registry but whose apt reaches
# Debian: debian:bookworm-slim, rust:1-bookworm (with the toolchain of this host) and redis:7-bookworm. They carry the
# names of the official ones, so the Dockerfile reads the same everywhere; an image that is there already is left alone.
#
#   deploy/base-images.sh                all: what the Dockerfile's two targets begin with, and compose.yaml's Redis
#   deploy/base-images.sh debian         the one that `--target prebuilt` needs
#   deploy/base-images.sh debian redis   any of debian, rust, redis
#
# Needs root (debootstrap makes device nodes and enters what it made), a Docker engine, and for rust a rustc on the PATH.
set -euo pipefail

readonly suite=bookworm

fail() {
  echo "base-images: $*" >&2
  exit 1
}

main() {
  [ $# -gt 0 ] || set -- debian rust redis
  for name in "$@"; do
    case $name in
      debian | rust | redis) ;;
      *) fail "no image is called \`$name\`: expected debian, rust or redis" ;;
    esac
  done
  docker version >/dev/null 2>&1 || fail "no Docker engine answers \`docker version\`"
  scratch=$(mktemp -d)
  trap 'rm -rf --one-file-system "$scratch"' EXIT
  mkdir "$scratch/debs"
  for name in "$@"; do "make_$name"; done
}

make_debian() {
  missing debian:bookworm-slim || return 0
  bootstrap debian
  import debian debian:bookworm-slim 'CMD ["bash"]'
}

# rustup's own download is out of reach on such a host, so its toolchain goes in as it lies here. The certificates of the
# host too: what vouches for the crates' registry here has to vouch for it in there.
make_rust() {
  missing rust:1-bookworm || return 0
  command -v rustc >/dev/null || fail "rustc is not on the PATH: rust:1-bookworm is made of this host's toolchain"
  bootstrap rust gcc libc6-dev ca-certificates
  local root=$scratch/rust sysroot
  sysroot=$(rustc --print sysroot)
  mkdir -p "$root/usr/local/rust" "$root/usr/local/cargo"
  tar -C "$sysroot" --exclude=./share --exclude=./lib/rustlib/src -c bin lib | tar -C "$root/usr/local/rust" -x
  [ ! -f /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  import rust rust:1-bookworm 'CMD ["bash"]' 'ENV CARGO_HOME=/usr/local/cargo' \
    'ENV PATH=/usr/local/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
}

make_redis() {
  missing redis:7-bookworm || return 0
  bootstrap redis redis-server
  # The package's user, by the official image's name: its number differs.
  chroot "$scratch/redis" install -d -o redis -g redis /data
  import redis redis:7-bookworm 'USER redis' 'WORKDIR /data' 'VOLUME /data' 'EXPOSE 6379' \
    'CMD ["redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--dir", "/data"]'
}

# missing IMAGE: whether it has to be made.
missing() {
  ! docker image inspect "$1" >/dev/null 2>&1
}

# bootstrap NAME [PACKAGE ...]: a small Debian below $scratch/NAME, with these packages and without what only people read.
bootstrap() {
  local root=$scratch/$1
  shift
  need_debootstrap
  local words=(--variant=minbase --cache-dir="$scratch/debs") packages="$*"
  [ -z "$packages" ] || words+=(--include="${packages// /,}")
  echo "base-images: debootstrap $suite${packages:+ with $packages} ..."
  debootstrap "${words[@]}" "$suite" "$root" ${mirror:+"$mirror"} >"$scratch/log" 2>&1 ||
    fail "debootstrap failed: $(tail -3 "$scratch/log" | tr '\n' ' ')"
  rm -rf "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* \
    "$root"/usr/share/{doc,info,lintian,locale,man}/*
}

# Installs debootstrap where apt can, and finds out where this host gets its packages from; debootstrap knows a place of
# its own for hosts whose apt knows none for the suite.
need_debootstrap() {
  [ -z "${mirror+set}" ] || return 0
  [ "$(id -u)" = 0 ] || fail "needs root to run debootstrap: sudo $0"
  if ! command -v debootstrap >/dev/null; then
    command -v apt-get >/dev/null || fail "debootstrap is missing, and so is apt-get to install it"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends debootstrap; } \
      >"$scratch/log" 2>&1 || fail "apt-get cannot install debootstrap: $(tail -1 "$scratch/log")"
  fi
  mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $suite" "Component: main" "Label: Debian" \
    2>/dev/null | sort -u | head -1 || true)
}

# import NAME IMAGE [CHANGE ...]: the tree below $scratch/NAME as an image of one layer.
import() {
  local root=$scratch/$1 image=$2 changes=() change
  shift 2
  for change in "$@"; do changes+=(--change "$change"); done
  tar -C "$root" --one-file-system -c . | docker import "${changes[@]}" - "$image" >/dev/null
  rm -rf --one-file-system "$root"
  echo "base-images: $image, $(docker image inspect --format '{{.Size}}' "$image" | numfmt --to=si)B"
}

main "$@"
