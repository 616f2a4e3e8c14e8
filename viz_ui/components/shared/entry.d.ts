/** What serving.py writes before entry.js: the version of all files, and which of them are the component's. */
declare const COMPONENT: { version: string; script: string; styles: string[] };

/** By version, the files that the page has: what entry.js left there for the next component. */
// eslint-disable-next-line no-var
declare var componentFiles: Record<string, Promise<{ texts: Record<string, string>; addresses: Record<string, string> }>>;
