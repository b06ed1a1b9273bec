#!/bin/sh
# Cargo's compiler wrapper for the kernel programs.
#
# Cargo identifies a crate that lies outside of the workspace (nic-common, core) by the absolute
# path of its source, and rustc puts this identity into symbol names. With package and version
# instead, the object is the same wherever it is built.
for argument; do
    shift
    case $argument in
    metadata=*) argument="metadata=$CARGO_PKG_NAME-$CARGO_PKG_VERSION" ;;
    esac
    set -- "$@" "$argument"
done
exec "$@"
