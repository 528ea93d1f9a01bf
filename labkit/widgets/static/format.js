// Numbers and times in words. The parts of this folder are joined into one module, in the order that assets.py gives.

const COUNT = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const RATE_UNITS = [
  ["pps", 1],
  ["kpps", 1e3],
  ["Mpps", 1e6],
  ["Gpps", 1e9],
];

/** 5021334 → "5.02 Mpps": three significant digits, always with the unit. */
function formatRate(pps, digits = 3) {
  if (!Number.isFinite(pps)) return "–";
  for (const [unit, size] of RATE_UNITS) {
    const value = Number((pps / size).toPrecision(digits));
    if (unit === "pps" && Math.abs(pps) < 999.5) return `${Math.round(pps)} ${unit}`;
    if (unit !== "pps" && (Math.abs(value) < 1000 || unit === "Gpps")) {
      return `${value.toFixed(Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value)))))} ${unit}`;
    }
  }
  return "–";
}

/** 1000003 → "1,000,003". */
function formatCount(packets) {
  return Number.isFinite(packets) ? COUNT.format(packets) : "–";
}

/** A part of 1 → "53.7 %"; never rounds something to nothing, or nearly all to all. */
function formatShare(share, decimals = 1) {
  if (!Number.isFinite(share)) return "";
  const percent = share * 100;
  const least = 10 ** -decimals;
  if (percent > 0 && percent < least / 2) return `< ${least} %`;
  if (percent > 100 - least / 2 && percent < 100) return `> ${(100 - least).toFixed(decimals)} %`;
  return percent === 0 || percent === 100 ? `${percent} %` : `${percent.toFixed(decimals)} %`;
}

/** Seconds → "0:42", "1:00:05". */
function formatTime(seconds) {
  const whole = Math.max(0, Math.floor(seconds || 0));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n) => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** The value of a range control in words. */
function formatControl(control, value) {
  if (value === null) return control.end ?? "";
  if (control.unit === "pps") return formatRate(value);
  return control.unit ? `${formatCount(value)} ${control.unit}` : formatCount(value);
}
