#!/usr/bin/env bash
# Builds what a release consists of, into dist/: an archive with a checksum for each target, the wheel, the source
# package.
#
#   ./release.sh                                   # every target, the wheel and the source package
#   ./release.sh x86_64-unknown-linux-musl         # this target alone
#   ./release.sh wheel
#
# Needs cargo, rustup, and from the Python package index `cargo-zigbuild`, `ziglang` and `maturin`: zig links against
# the glibc of 2014, so that the programs run on older systems too. Archives are named as cargo-binstall expects.
set -euo pipefail
cd "$(dirname "$0")"

glibc=2.17
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
targets=(x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-unknown-linux-musl)
mkdir -p dist

archive() {
    local target=$1 name="paint-tta-$1-v$version" zig=$1
    [[ $target == *-gnu ]] && zig="$target.$glibc"
    rustup target add "$target"
    cargo zigbuild --release --locked -p paint-cli --target "$zig"
    local folder
    folder=$(mktemp -d)
    mkdir "$folder/$name"
    cp "target/$target/release/paint" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$folder/$name/"
    # The same files give the same bytes, whoever packs them and whenever.
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$folder" -cf - "$name" | gzip -n9 > "dist/$name.tgz"
    rm -rf "$folder"
    (cd dist && sha256sum "$name.tgz" > "$name.tgz.sha256")
    echo "dist/$name.tgz"
}

wheel() {
    maturin build --release --zig --compatibility manylinux2014 --out dist
    maturin sdist --out dist
}

if [[ $# -eq 0 ]]; then
    set -- "${targets[@]}" wheel
fi
for what in "$@"; do
    if [[ $what == wheel ]]; then wheel; else archive "$what"; fi
done
