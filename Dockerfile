# Multi-stage: what builds is left behind. The result holds Python, the locked packages and the service.
# Runs with a read-only root file system: it writes to /data only.
#   docker run --read-only -v authz-data:/data -p 8700:8700 authz
ARG PYTHON_IMAGE=python:3.12-slim

FROM ${PYTHON_IMAGE} AS build
ENV PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
# The locks first: a change of the code alone installs nothing anew.
COPY .ci/requirements.txt .ci/requirements-build.txt .ci/
# The environment that ships has no pip of its own.
RUN python -m venv --without-pip /opt/authz \
    && python -m pip --python /opt/authz/bin/python install --require-hashes --only-binary :all: \
        -r .ci/requirements.txt \
    && python -m venv /opt/build \
    && /opt/build/bin/python -m pip install --require-hashes --only-binary :all: \
        -r .ci/requirements-build.txt
COPY pyproject.toml ./
COPY clients/python clients/python
COPY authz authz
RUN /opt/build/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels ./clients/python . \
    && python -m pip --python /opt/authz/bin/python install --no-deps --no-index /wheels/*.whl \
    && python -m pip --python /opt/authz/bin/python check

FROM ${PYTHON_IMAGE}
# Fixed numbers, so that a volume's owner can be set from outside, and runAsNonRoot can see them.
RUN groupadd --system --gid 10001 authz \
    && useradd --system --uid 10001 --gid 10001 --home-dir /data --no-create-home --shell /usr/sbin/nologin authz \
    && install -d -o 10001 -g 10001 -m 0700 /data
COPY --from=build /opt/authz /opt/authz
# The shipped policies, as an example to start from; mount your own bundle here.
COPY policies /etc/authz/policies
ENV PATH=/opt/authz/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    AUTHZ_DATA_DIR=/data \
    AUTHZ_POLICIES=/etc/authz/policies \
    AUTHZ_HOST=0.0.0.0
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8700
USER 10001:10001
# Not urllib: it would ask a proxy of the environment.
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import http.client, sys; c = http.client.HTTPConnection('127.0.0.1', 8700, timeout=2); c.request('GET', '/healthz'); sys.exit(c.getresponse().status != 200)"]
ENTRYPOINT ["authz"]
CMD ["serve"]
