// Writes a minimal configuration for a log server of a group.

export function natsConfig(name: string, peers: readonly string[], store: string): string {
  const routes = peers.map((peer) => `nats://${peer}:6222`).join(", ");
  return [
    `server_name: ${name}`,
    "listen: 0.0.0.0:4222",
    "http: 0.0.0.0:8222",
    "jetstream {",
    `  store_dir: "${store}"`,
    "  # Without this, a power cut of all log servers loses changes acknowledged in the last two minutes.",
    "  sync_interval: always",
    "}",
    "cluster {",
    "  name: runnerbean",
    "  listen: 0.0.0.0:6222",
    `  routes: [${routes}]`,
    "}",
    "# Detects a disconnected server sooner.",
    'ping_interval: "2s"',
    "ping_max: 2",
  ].join("\n");
}
