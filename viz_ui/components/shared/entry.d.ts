/** What serving.py writes before entry.js: the version of all files, and which of them are the component's. */
declare const COMPONENT: { version: string; script: string; styles: string };
