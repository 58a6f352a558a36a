/**
 * What can be said of whatever was thrown.
 *
 * @module
 */

/** Its text. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
