# The relay as one compiled binary, and a stage with the sample backend of compose.yaml.

FROM denoland/deno:2.9.6 AS build
WORKDIR /build
COPY deno.json deno.lock package.json main.ts ./
COPY src ./src
RUN deno task compile

FROM denoland/deno:2.9.6 AS sample-backend
COPY tests/support/sample_backend.ts /app/sample_backend.ts
USER deno
EXPOSE 8090
CMD ["run", "--no-prompt", "--allow-net", "--allow-env=PORT", "/app/sample_backend.ts"]

# The binary needs glibc and nothing else; bash is what asks /healthz.
FROM debian:13-slim
COPY --from=build /build/dist/queue-relay /usr/local/bin/queue-relay
# Numeric, so that Kubernetes can see that it is not root.
RUN install --directory --owner=10001 --group=10001 /var/lib/queue-relay
USER 10001:10001
WORKDIR /var/lib/queue-relay
ENV DATA_DIR=/var/lib/queue-relay
EXPOSE 8080 8081
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
  CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/${INBOUND_PORT:-8080} && printf 'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -r answer <&3 && [[ $answer == 'HTTP/1.1 200 '* ]]"]
ENTRYPOINT ["/usr/local/bin/queue-relay"]
