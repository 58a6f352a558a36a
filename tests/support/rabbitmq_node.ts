/**
 * How a private RabbitMQ node is run: from which installation, with which environment, under which
 * guard. `rabbitmq.ts` offers it to tests, `broker.ts` to `deno task broker`.
 *
 * What holds for every node started here:
 * - It touches nothing of an installed service: data, logs, plugins, configuration, Erlang cookie
 *   (`HOME`) and epmd are its own, and no RABBITMQ_* variable of the caller reaches it.
 * - It listens on loopback only, Erlang's distribution included.
 * - epmd is private (a port of its own) and ends with the node: none is left behind, and all nodes
 *   may have the same name.
 *
 * @module
 */

import { freePort } from "./ports.ts";

/** Which RabbitMQ to run. */
export type Flavour =
  /** The `rabbitmq-server` of this machine, run as the caller, root or not. */
  | { readonly kind: "installed" }
  /** The one of a Debian that debootstrap put into the directory `root`; needs root. */
  | { readonly kind: "chroot"; readonly root: string };

/** The commands of one node, each a program with its arguments, and their whole environment. */
export interface NodeCommands {
  /** Runs the broker under the guard, in the foreground. */
  server(mode: GuardMode): readonly string[];
  /** Runs rabbitmqctl against it. */
  ctl(args: readonly string[]): readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** `watch`: the node ends with the process that started it. `leave`: it stays. */
export type GuardMode = "watch" | "leave";

const DEBIAN_BIN = "/usr/lib/rabbitmq/bin";
const SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** Where a chroot sees the node's directory. */
const CHROOT_DIR = "/mnt";

/**
 * Enters the chroot $1 with /proc and, at /mnt, the directory $2. The mounts are made in a mount
 * namespace of this process alone, so that they vanish with it however it ends.
 */
const ENTER_CHROOT = `set -e
mount --rbind /proc "$1/proc"
mount --bind "$2" "$1${CHROOT_DIR}"
root=$1
shift 2
exec chroot "$root" "$@"`;

/**
 * Runs epmd and the broker ($3), whose directory is $1, and ends epmd when the broker ends.
 *
 * The lines of the standard input are signals for the broker. When $2 is \`watch\` the end of the
 * input means that the process that started the node has gone, however it went: then the node is
 * killed and its directory emptied. Signals of the terminal are ignored, so that Ctrl-C does not
 * take the broker away from tests that are still putting things in order.
 *
 * All that is done by a child of the script, because Deno kills the script itself when the test
 * module that started it ends without having stopped it.
 */
const GUARD = `trap '' INT HUP
dir=$1 mode=$2
shift 2
exec 3<&0 </dev/null >"$dir/startup.log" 2>&1
guard() {
  epmd & epmd=$!
  "$@" & node=$!
  echo "$node" >"$dir/pid"
  {
    while read -r signal <&3; do kill "-$signal" "$node"; done
    [ "$mode" = watch ] || exit 0
    : >"$dir/abandoned"
    kill -KILL "$node"
  } & input=$!
  wait "$node"
  kill "$epmd"
  if [ "$mode" = watch ]; then kill -KILL "$input"; fi
  if [ -e "$dir/abandoned" ]; then rm -rf "$dir"; fi
}
guard "$@" &
wait "$!"
exit 0`;

/**
 * The commands for a node that keeps everything in the directory `dir`, which must exist, and
 * listens on `port`. Writes its configuration there. Throws when no RabbitMQ is installed.
 */
export async function prepareNode(
  flavour: Flavour,
  dir: string,
  port: number,
): Promise<NodeCommands> {
  const inChroot = flavour.kind === "chroot";
  const bin = inChroot ? DEBIAN_BIN : await installedBin();
  const seen = inChroot ? CHROOT_DIR : dir;
  const enter = inChroot
    ? ["unshare", "--mount", "sh", "-c", ENTER_CHROOT, "sh", flavour.root, dir]
    : [];
  await writeConfiguration(dir);
  return {
    server: (mode) => [...enter, "sh", "-c", GUARD, "sh", seen, mode, `${bin}/rabbitmq-server`],
    ctl: (args) => [...enter, `${bin}/rabbitmqctl`, ...args],
    env: environment(seen, port),
  };
}

/**
 * The folder with RabbitMQ's own scripts, or `undefined` when RabbitMQ is not installed.
 *
 * Debian's `rabbitmq-server` is a wrapper that changes to the user `rabbitmq` and refuses anybody
 * but root; the script that it calls asks for neither.
 */
export async function findInstalled(): Promise<string | undefined> {
  const path = `${Deno.env.get("PATH") ?? ""}:${SYSTEM_PATH}:${DEBIAN_BIN}`;
  for (const folder of path.split(":")) {
    if (folder === "") continue;
    // A folder of PATH that is none, or may not be looked into, offers nothing to run either.
    const script = await Deno.realPath(`${folder}/rabbitmq-server`).catch(() => undefined);
    if (script !== undefined) return script.slice(0, script.lastIndexOf("/"));
  }
  return undefined;
}

async function installedBin(): Promise<string> {
  const bin = await findInstalled();
  if (bin !== undefined) return bin;
  throw new Error(
    "RabbitMQ is not installed: no rabbitmq-server in PATH. On Debian or Ubuntu install it with " +
      "`apt-get install rabbitmq-server`, or set RABBIT_HOST to a broker that runs.",
  );
}

async function writeConfiguration(dir: string): Promise<void> {
  await Deno.writeTextFile(`${dir}/enabled_plugins`, "[].\n");
  // The write-ahead log of quorum queues grows to 512 MiB by default, and is read again in full
  // after a kill.
  await Deno.writeTextFile(`${dir}/rabbitmq.conf`, "raft.wal_max_size_bytes = 67108864\n");
  // A message whose wait ends while the broker starts may find the next queue not ready; by default
  // it is tried again after three minutes (measured on 3.10.8). There is no rabbitmq.conf key for it.
  const retry = "{dead_letter_worker_publisher_confirm_timeout, 5000}";
  await Deno.writeTextFile(`${dir}/advanced.config`, `[{rabbit, [${retry}]}].\n`);
}

function environment(dir: string, port: number): Record<string, string> {
  return {
    PATH: `${Deno.env.get("PATH") ?? ""}:${SYSTEM_PATH}`,
    HOME: dir,
    LANG: "C.UTF-8",
    ERL_EPMD_PORT: String(freePort()),
    ERL_EPMD_ADDRESS: "127.0.0.1",
    // An address instead of a name: there is nothing to resolve, also in a chroot without /etc/hosts.
    RABBITMQ_NODENAME: "queue-relay@127.0.0.1",
    RABBITMQ_USE_LONGNAME: "true",
    RABBITMQ_NODE_IP_ADDRESS: "127.0.0.1",
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_DIST_PORT: String(freePort()),
    RABBITMQ_CTL_DIST_PORT_MIN: "0",
    RABBITMQ_CTL_DIST_PORT_MAX: "0",
    RABBITMQ_CONF_ENV_FILE: `${dir}/rabbitmq-env.conf`,
    RABBITMQ_CONFIG_FILE: `${dir}/rabbitmq.conf`,
    RABBITMQ_ADVANCED_CONFIG_FILE: `${dir}/advanced.config`,
    RABBITMQ_ENABLED_PLUGINS_FILE: `${dir}/enabled_plugins`,
    RABBITMQ_MNESIA_BASE: `${dir}/data`,
    RABBITMQ_LOG_BASE: `${dir}/log`,
    // Else Erlang leaves a dump in the caller's directory when it cannot start.
    ERL_CRASH_DUMP_SECONDS: "0",
    // Two schedulers that neither spin while idle nor are bound to a core: several nodes share the
    // machine with the tests.
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: "+S 2:2 +stbt u +sbwt none +sbwtdcpu none +sbwtdio none " +
      "-kernel inet_dist_use_interface {127,0,0,1}",
    RABBITMQ_CTL_ERL_ARGS: "+S 1:1 +sbwt none",
    // Makes rabbitmq-server become the Erlang process instead of its parent, so that a signal for
    // the one reaches the other. RabbitMQ talks to systemd only if NOTIFY_SOCKET is set too.
    RUNNING_UNDER_SYSTEMD: "true",
  };
}
