/**
 * Moments as clients and backends write them: HTTP dates (RFC 9110, 5.6.7) and RFC 3339.
 *
 * `Date.parse` is not used: it takes "120" for a year and "-3" for a month, and makes 30 February
 * the second of March. What is not exactly one of the formats is no moment here.
 *
 * @module
 */

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAY = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)";
const WEEKDAY_IN_FULL = "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day";
const MONTH = `(?<month>${MONTHS.join("|")})`;
const TIME = String.raw`(?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d)`;

/** The one that is sent today, and the two that a recipient must still understand. */
const HTTP_DATES = [
  String.raw`${WEEKDAY}, (?<day>\d\d) ${MONTH} (?<year>\d{4}) ${TIME} GMT`,
  String.raw`${WEEKDAY_IN_FULL}, (?<day>\d\d)-${MONTH}-(?<year>\d\d) ${TIME} GMT`,
  String.raw`${WEEKDAY} ${MONTH} (?<day>[ \d]\d) ${TIME} (?<year>\d{4})`,
].map((format) => new RegExp(`^${format}$`));

const RFC_3339 = new RegExp(
  String.raw`^(?<year>\d{4})-(?<month>\d\d)-(?<day>\d\d)[Tt ]${TIME}(?<fraction>\.\d+)?` +
    String.raw`(?:[Zz]|(?<sign>[+-])(?<offsetHours>\d\d):(?<offsetMinutes>\d\d))$`,
);

const MINUTE_MS = 60_000;

/**
 * The moment of an HTTP date, milliseconds since the epoch; undefined when it is none.
 *
 * @param now milliseconds since the epoch, by which a year of two digits is understood.
 */
export function parseHttpDate(text: string, now: number): number | undefined {
  for (const format of HTTP_DATES) {
    const fields = format.exec(text)?.groups;
    if (fields === undefined) continue;
    const month = MONTHS.indexOf(fields["month"] ?? "") + 1;
    const digits = fields["year"] ?? "";
    const year = digits.length === 2 ? fullYear(Number(digits), now) : Number(digits);
    return utcTime({ ...fields, year, month });
  }
  return undefined;
}

/**
 * The moment of an RFC 3339 date and time, milliseconds since the epoch, a fraction of one rounded
 * up; undefined when it is none.
 */
export function parseRfc3339(text: string): number | undefined {
  const fields = RFC_3339.exec(text)?.groups;
  if (fields === undefined) return undefined;
  const { sign, offsetHours, offsetMinutes, fraction } = fields;
  const [hours, minutes] = [Number(offsetHours ?? 0), Number(offsetMinutes ?? 0)];
  if (hours > 23 || minutes > 59) return undefined;
  const local = utcTime(fields);
  if (local === undefined) return undefined;
  const offset = (sign === "-" ? -1 : 1) * (hours * 60 + minutes) * MINUTE_MS;
  return local + Math.ceil(Number(fraction ?? 0) * 1000) - offset;
}

type Fields = Readonly<Record<string, string | number | undefined>>;

/** Undefined when there is no such day or time. A leap second is the second after it. */
function utcTime(fields: Fields): number | undefined {
  const [month, day] = [Number(fields["month"]), Number(fields["day"])];
  const [hour, minute, second] = [fields["hour"], fields["minute"], fields["second"]].map(Number);
  if (hour === undefined || minute === undefined || second === undefined) return undefined;
  if (hour > 23 || minute > 59 || second > 60) return undefined;
  const date = new Date(0);
  // Not Date.UTC, which takes the year 26 for 1926.
  date.setUTCFullYear(Number(fields["year"]), month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return undefined;
  return date.setUTCHours(hour, minute, second);
}

/** More than fifty years ahead means the century before (RFC 9110, 5.6.7). */
function fullYear(twoDigits: number, now: number): number {
  const thisYear = new Date(now).getUTCFullYear();
  const year = thisYear - thisYear % 100 + twoDigits;
  return year > thisYear + 50 ? year - 100 : year;
}
