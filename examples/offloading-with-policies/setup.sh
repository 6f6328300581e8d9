#!/usr/bin/env bash
# Three clusters with Liqo, labelled by region.
set -euo pipefail

exec "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../../scripts/three-clusters" \
    topology.liqo.io/region=north topology.liqo.io/region=center topology.liqo.io/region=south
