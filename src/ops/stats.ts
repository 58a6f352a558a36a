/**
 * What `GET /stats` tells, and the dashboard, the command line and `/events` show.
 *
 * @module
 */

/** How one relay and its queues stand at a moment. */
export interface Stats {
  /** The moment, RFC 3339. */
  readonly at: string;
  readonly version: string;
  readonly queuePrefix: string;
  /** Seconds since this process started. */
  readonly uptimeSeconds: number;
  /** Whether delivering is paused, for all replicas. */
  readonly paused: boolean;
  readonly replica: {
    /** Whether this relay is the one that delivers; another one may be. */
    readonly active: boolean;
    /** As `/readyz` names them. */
    readonly consumer: string;
    readonly publisher: string;
    readonly broker: string;
    readonly ledger: string;
    /** With REDIS_URL: whether the limit that replicas share can be read. */
    readonly limit?: string;
  };
  readonly gate: {
    /** `rising`: open again, at less than the full limit. */
    readonly state: "open" | "closed" | "probing" | "rising";
    /** What closed it; null when it is open. */
    readonly reason: "retry_after" | "breaker" | null;
    /** When it may open, RFC 3339; null when it is open. */
    readonly until: string | null;
  };
  readonly limit: {
    readonly algorithm: "fixed-window" | "sliding-window";
    readonly maxRequests: number;
    readonly windowSeconds: number;
    /** Requests begun in the window that lasts now. */
    readonly used: number;
  };
  /** Requests to the backend that this relay waits for. */
  readonly inFlight: number;
  readonly concurrency: number;
  /** In the order of a task's way: main, the rungs, further delays that hold something, failed. */
  readonly queues: readonly QueueStats[];
  /** Age of the oldest task that is due and has not begun, as far as this relay has it; null: none. */
  readonly oldestDueSeconds: number | null;
  /**
   * How long what waits will take at the rate that limit and backend allow; null: it would never end,
   * or the broker can't be asked now.
   */
  readonly drainSeconds: number | null;
  /** Counted since this process started. */
  readonly totals: {
    readonly accepted: number;
    readonly rejected: number;
    readonly delivered: number;
    readonly retried: number;
    readonly failed: number;
    readonly duplicate: number;
    readonly cancelled: number;
  };
  /** The last 15 minutes, oldest first. */
  readonly history: {
    readonly stepSeconds: number;
    readonly samples: readonly StatsSample[];
  };
}

/** A queue, and how many messages lie in it ready; null: the broker can't be asked now. */
export interface QueueStats {
  readonly name: string;
  readonly role: "main" | "retry" | "delay" | "failed";
  /** Of a rung or a delay. */
  readonly delaySeconds: number | null;
  readonly messages: number | null;
}

/** What happened within one step of the history. */
export interface StatsSample {
  /** The end of the step, RFC 3339. */
  readonly at: string;
  readonly accepted: number;
  readonly delivered: number;
  readonly retried: number;
  readonly failed: number;
  /** Durations of the attempts that ended; null: none did. */
  readonly p50Ms: number | null;
  readonly p95Ms: number | null;
  /** Messages in main and on the rungs at its end. */
  readonly waiting: number | null;
  /** Attempts that ended, by the backend's status, or by the outcome where there was none. */
  readonly statuses: Readonly<Record<string, number>>;
}
