#!/usr/bin/env bash
# Three clusters with Liqo: one where applications are created, and two where they run.
set -euo pipefail

exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../scripts/three-clusters" \
    topology.liqo.io/type=origin topology.liqo.io/type=destination topology.liqo.io/type=destination
